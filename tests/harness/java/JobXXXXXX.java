import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A Spark application for tests: runs until a test ends it, or its time is over, and keeps a book of its own.
 *
 * Arguments: the folder for its records, and the seconds it runs by itself; more are ignored. The driver's
 * working directory carries its id. It writes {@code <id>.pid} when it starts, reads its exit code from
 * {@code <id>.exit}, and ends with 0 when its time is over. The class's name is a placeholder: SparkService
 * gives each case's jar a name of the same length, and counts its drivers on the master by it.
 */
public class JobXXXXXX {
  public static void main(String[] arguments) throws Exception {
    Path records = Files.createDirectories(Path.of(arguments[0]));
    long deadline = System.nanoTime() + (long) (Double.parseDouble(arguments[1]) * 1e9);
    String id = Path.of("").toAbsolutePath().getFileName().toString();
    Path started = records.resolve(id + ".starting");
    Files.writeString(started, Long.toString(ProcessHandle.current().pid()));
    Files.move(started, records.resolve(id + ".pid"));
    Path exit = records.resolve(id + ".exit");
    while (!Files.exists(exit) && System.nanoTime() < deadline) {
      Thread.sleep(100);
    }
    System.out.println("the application " + id + " ends");
    System.exit(Files.exists(exit) ? Integer.parseInt(Files.readString(exit).strip()) : 0);
  }
}
