package dev.sparksql.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/** The times at which the files of a folder were modified, in one call of the gateway for any number of files. */
public final class FileTimes {
    private FileTimes() {}

    /** Returns name and time (milliseconds since 1970) of each file in turn, a NUL behind each; empty without the folder. */
    public static String of(Path folder, Configuration settings) throws IOException {
        StringBuilder found = new StringBuilder();
        try {
            RemoteIterator<FileStatus> files = folder.getFileSystem(settings).listStatusIterator(folder);
            while (files.hasNext()) {
                FileStatus file = files.next();
                if (file.isFile()) {
                    found.append(file.getPath().getName()).append('\0').append(file.getModificationTime()).append('\0');
                }
            }
        } catch (FileNotFoundException missing) {
            return "";
        }
        return found.toString();
    }
}
