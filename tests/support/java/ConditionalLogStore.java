import io.delta.storage.HadoopFileSystemLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * A log store of Delta for a store with conditional writes: S3 itself refuses the second of two commits of a version.
 *
 * Delta 4.4 has no such log store. This one is for tests: it does not recognize its own commit if S3 has written the
 * file but the answer was lost.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        var file = files.createFile(path).overwrite(overwrite);
        if (!overwrite) {
            if (files.exists(path)) throw new FileAlreadyExistsException(path.toString());
            file.must("fs.option.create.conditional.overwrite", true);
        }
        try (FSDataOutputStream stream = file.build()) {
            while (actions.hasNext()) {
                stream.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
            }
        } catch (RemoteFileChangedException | org.apache.hadoop.fs.FileAlreadyExistsException error) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return false;
    }
}
