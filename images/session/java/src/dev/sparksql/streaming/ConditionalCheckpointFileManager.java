package dev.sparksql.streaming;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes a checkpoint's files in object stores: an object is there when it is whole, and one that may not be replaced is made by a
 * conditional request.
 *
 * <p>Spark's own managers write beside the name and rename. s3a renames by a look for the name and a copy: of two drivers that write
 * the plan of one batch both can pass, and the checkpoint then stands for another batch than the one that a driver has read. Here the
 * store itself refuses the second. Where a file system knows no such request, files are written as Spark does.
 */
public final class ConditionalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
    private final boolean isConditional;

    /** Is called by Spark, on drivers and executors. */
    public ConditionalCheckpointFileManager(Path path, Configuration configuration) throws IOException {
        super(path, configuration);
        isConditional = fs().hasPathCapability(path, CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE);
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrites) {
        if (!isConditional) {
            return super.createAtomic(path, overwrites);
        }
        try {
            return overwrites ? new Upload(fs().create(path, true)) : new FirstUpload(created(path), fs(), path);
        } catch (IOException failed) {
            throw unchecked(failed);
        }
    }

    private FSDataOutputStream created(Path path) throws IOException {
        if (fs().exists(path)) { // refused before anything is sent
            throw new FileAlreadyExistsException(path + " is there already");
        }
        return (FSDataOutputStream) fs().createFile(path)
                .create()
                .overwrite(false)
                .must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true)
                .build();
    }

    /** Spark's method declares no exceptions, as Scala needs none, and Spark catches what its own managers throw. */
    @SuppressWarnings("unchecked")
    private static <E extends Exception> RuntimeException unchecked(Exception failed) throws E {
        throw (E) failed;
    }

    /** An object that appears when it is closed. */
    private static class Upload extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FSDataOutputStream data;

        Upload(FSDataOutputStream data) {
            super(data);
            this.data = data;
        }

        /** Nothing appears. After `close` it changes nothing. */
        @Override
        public void cancel() {
            data.abort();
        }
    }

    /** One that does so only if there is none. */
    private static final class FirstUpload extends Upload {
        private final FileSystem system;
        private final Path path;

        FirstUpload(FSDataOutputStream data, FileSystem system, Path path) {
            super(data);
            this.system = system;
            this.path = path;
        }

        @Override
        public void close() throws IOException {
            try {
                super.close();
            } catch (IOException failed) {
                if (!system.exists(path)) {
                    throw failed;
                }
                // Also if it is our own, whose answer was lost: the query then ends, and goes on from it when it starts again.
                FileAlreadyExistsException refused = new FileAlreadyExistsException(path + " was made by another driver meanwhile");
                refused.initCause(failed);
                throw refused;
            }
        }
    }
}
