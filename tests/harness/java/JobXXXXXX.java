import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A Spark application for tests: runs until a test ends it, or its time is over, and keeps a book of its own.
 *
 * Its time is in the argument {@code seconds=600}; without it, a moment; other arguments are ignored. The
 * folder for its records is in its jar. A driver's working directory carries its id; one that is the child of
 * spark-submit has its pid instead. It writes {@code <id>.pid} when it starts, reads its exit code from
 * {@code <id>.exit}, and ends with 0 when its time is over. The class's name is a placeholder: SparkService
 * gives each case's jar a name of the same length, and counts its drivers on the master by it.
 */
public class JobXXXXXX {
  public static void main(String[] arguments) throws Exception {
    Path records;
    try (InputStream folder = JobXXXXXX.class.getResourceAsStream("/records-folder")) {
      records = Files.createDirectories(Path.of(new String(folder.readAllBytes(), StandardCharsets.UTF_8)));
    }
    double seconds = 1;
    for (String argument : arguments) {
      if (argument.startsWith("seconds=")) {
        seconds = Double.parseDouble(argument.substring("seconds=".length()));
      }
    }
    long deadline = System.nanoTime() + (long) (seconds * 1e9);
    String pid = Long.toString(ProcessHandle.current().pid());
    String place = Path.of("").toAbsolutePath().getFileName().toString();
    String id = place.startsWith("driver-") ? place : "client-" + pid;
    Path started = records.resolve(id + ".starting");
    Files.writeString(started, pid);
    Files.move(started, records.resolve(id + ".pid"));
    Path exit = records.resolve(id + ".exit");
    while (!Files.exists(exit) && System.nanoTime() < deadline) {
      Thread.sleep(100);
    }
    System.out.println("the application " + id + " ends");
    System.exit(Files.exists(exit) ? Integer.parseInt(Files.readString(exit).strip()) : 0);
  }
}
