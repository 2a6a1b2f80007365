import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportResponse;
import org.apache.hadoop.yarn.api.protocolrecords.GetClusterMetricsResponse;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationResponse;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationResponse;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.api.records.YarnClusterMetrics;
import org.apache.hadoop.yarn.ipc.YarnRPC;
import org.apache.hadoop.yarn.util.Records;

/**
 * Hadoop's RPC in front of a ResourceManager that speaks only REST, so that the real spark-submit can submit.
 *
 * Arguments: the RPC port and the URL of the REST side. Three calls of ApplicationClientProtocol become the
 * requests that the ResourceManager's REST document has for the same thing; the rest is refused.
 * https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
 */
public class ResourceManagerFront implements InvocationHandler {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String apps;

  private ResourceManagerFront(String url) {
    apps = url + "/ws/v1/cluster/apps";
  }

  public static void main(String[] arguments) throws Exception {
    ApplicationClientProtocol protocol =
        (ApplicationClientProtocol)
            Proxy.newProxyInstance(
                ResourceManagerFront.class.getClassLoader(),
                new Class<?>[] {ApplicationClientProtocol.class},
                new ResourceManagerFront(arguments[1]));
    Configuration conf = new Configuration();
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    YarnRPC.create(conf)
        .getServer(ApplicationClientProtocol.class, protocol, address, conf, null, 20)
        .start();
    Thread.currentThread().join();
  }

  @Override
  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "getClusterMetrics":
        return GetClusterMetricsResponse.newInstance(YarnClusterMetrics.newInstance(1));
      case "getNewApplication":
        return newApplication();
      case "submitApplication":
        submit(((SubmitApplicationRequest) arguments[0]).getApplicationSubmissionContext());
        return Records.newRecord(SubmitApplicationResponse.class);
      case "getApplicationReport":
        ApplicationId id = ((GetApplicationReportRequest) arguments[0]).getApplicationId();
        return GetApplicationReportResponse.newInstance(report(id, ask("GET", "/" + id, null).get("app")));
      default:
        throw new IOException("the stand-in does not know " + method.getName());
    }
  }

  private GetNewApplicationResponse newApplication() throws IOException, InterruptedException {
    JsonNode answer = ask("POST", "/new-application", JSON.createObjectNode());
    JsonNode most = answer.get("maximum-resource-capability");
    return GetNewApplicationResponse.newInstance(
        ApplicationId.fromString(answer.get("application-id").asText()),
        Resource.newInstance(256, 1),
        Resource.newInstance(most.get("memory").asLong(), most.get("vCores").asInt()));
  }

  private void submit(ApplicationSubmissionContext context) throws IOException, InterruptedException {
    ObjectNode body = JSON.createObjectNode();
    body.put("application-id", context.getApplicationId().toString());
    body.put("application-name", context.getApplicationName());
    body.put("application-type", context.getApplicationType());
    body.put("queue", context.getQueue());
    List<String> command = context.getAMContainerSpec().getCommands();
    body.putObject("am-container-spec").putObject("commands").put("command", String.join(" ", command));
    context.getApplicationTags().forEach(body.putObject("application-tags").putArray("tag")::add);
    ask("POST", "", body);
  }

  private ApplicationReport report(ApplicationId id, JsonNode app) {
    ApplicationReport report = Records.newRecord(ApplicationReport.class);
    report.setApplicationId(id);
    report.setUser(app.get("user").asText());
    report.setName(app.get("name").asText());
    report.setQueue(app.get("queue").asText());
    report.setHost("N/A");
    report.setRpcPort(-1);
    report.setTrackingUrl(app.get("trackingUrl").asText());
    report.setDiagnostics(app.get("diagnostics").asText());
    report.setStartTime(app.get("startedTime").asLong());
    report.setFinishTime(app.get("finishedTime").asLong());
    report.setYarnApplicationState(YarnApplicationState.valueOf(app.get("state").asText()));
    report.setFinalApplicationStatus(FinalApplicationStatus.valueOf(app.get("finalStatus").asText()));
    report.setApplicationType(app.get("applicationType").asText());
    return report;
  }

  private JsonNode ask(String method, String path, JsonNode body) throws IOException, InterruptedException {
    HttpRequest.BodyPublisher content =
        body == null
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body));
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(apps + path))
            .method(method, content)
            .header("Content-Type", "application/json")
            .build();
    HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() >= 400) {
      throw new IOException(method + " " + path + ": HTTP " + answer.statusCode() + " " + answer.body());
    }
    return JSON.readTree(answer.body().isEmpty() ? "{}" : answer.body());
  }
}
