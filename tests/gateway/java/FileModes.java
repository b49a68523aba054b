import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Makes a file and a folder with modes of their own and moves a link's file as streams do with their checkpoints' files. */
public final class FileModes {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        Path folder = new Path(URI.create("file://" + arguments[0]));
        FileSystem files = FileSystem.newInstance(folder.toUri(), conf);
        files.create(new Path(folder, "new")).close();
        files.setPermission(new Path(folder, "new"), new FsPermission((short) 0640));
        files.mkdirs(new Path(folder, "made"), new FsPermission((short) 0755));
        files.setPermission(new Path(folder, "made"), new FsPermission((short) 01777));
        FileContext.getFileContext(folder.toUri(), conf)
                .rename(new Path(folder, "link"), new Path(folder, "moved"), Options.Rename.OVERWRITE);
        System.out.println("renamed");
    }
}
