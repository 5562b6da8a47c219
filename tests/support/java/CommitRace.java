import io.delta.storage.LogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Commits versions of a table by a log store, as a Spark driver does, and prints the number of its commits.
 *
 * Arguments: the class of the log store, the directory of the log, the name of this driver, the number of versions, the
 * time of the start in milliseconds, and settings as name=value. Each version is tried in the same millisecond by all
 * drivers that have the same start.
 */
public class CommitRace {
    public static void main(String[] arguments) throws Exception {
        var settings = new Configuration();
        for (var setting : List.of(arguments).subList(5, arguments.length)) {
            settings.set(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        var store = (LogStore) Class.forName(arguments[0]).getConstructor(Configuration.class).newInstance(settings);
        var log = new Path(arguments[1]);
        log.getFileSystem(settings).mkdirs(log);
        long start = Long.parseLong(arguments[4]);
        int committed = 0;
        for (int version = 0; version < Integer.parseInt(arguments[3]); version++) {
            Thread.sleep(Math.max(0, start + 100L * version - System.currentTimeMillis()));
            try {
                var file = new Path(log, String.format("%020d.json", version));
                store.write(file, List.of(arguments[2]).iterator(), false, settings);
                committed++;
            } catch (FileAlreadyExistsException error) {
                // The other driver has committed this version.
            }
        }
        System.out.println(committed);
    }
}
