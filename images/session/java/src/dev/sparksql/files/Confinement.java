package dev.sparksql.files;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.AccessControlException;

/**
 * Decides which local files Hadoop's file systems may touch: those in the folders that the process was given, links resolved.
 *
 * <p>Hadoop's own RawLocalFileSystem asks here (Confine.java builds that in), so it holds for every file system, configuration and
 * option that ends at a local path. Invariant: the folders come from the process's environment, which no SQL can change; a process
 * that was given none may touch nothing.
 */
public final class Confinement {
    /** Absolute folders, separated by colons. */
    public static final String ROOTS_VARIABLE = "SPARKSQL_FILE_ROOTS";

    /** Spark's own scratch folders, separated by commas; on executors Spark chooses them. */
    public static final String LOCAL_DIRS_VARIABLE = "SPARK_LOCAL_DIRS";

    private static final Set<String> NETWORK = Set.of("http", "https");
    private static final List<String> FILE_SYSTEM_SETTINGS = List.of("fs.", "dfs.", "hadoop.", "ipc.");
    private static final List<Path> ROOTS = roots(System.getenv());

    private Confinement() {}

    /** The file itself, if it lies in one of the folders; AccessControlException otherwise. */
    public static File checked(File file) throws AccessControlException {
        Path path;
        try {
            path = resolved(file.toPath());
        } catch (IOException | InvalidPathException unclear) {
            throw refusal(file);
        }
        for (Path root : ROOTS) {
            if (path.startsWith(root)) {
                return file;
            }
        }
        throw refusal(file);
    }

    /** Refuses the path of a file that is opened without Hadoop; the same refusal whether the file exists or not. */
    public static void checkPath(String path) throws AccessControlException {
        if (path != null) {
            checked(new File(path));
        }
    }

    /** Refuses the statement by which Hive's `serialization.ddl` reads a second file. Unchecked: its parser hands on no other. */
    public static void refuseInclude() {
        throw new UncheckedIOException(new ConfinedException("serialization.ddl: SQL may not include files; write the definitions themselves"));
    }

    /** Gives a file the mode that Hadoop asks for, sticky bit included; IOException if the file is not there. */
    public static void setPermission(File file, short mode) throws IOException {
        Files.setAttribute(file.toPath(), "unix:mode", (int) mode);
    }

    /** Where a link leads; "" for what is none, as Hadoop has it. */
    public static String readLink(File file) throws IOException {
        Path path = file.toPath();
        return Files.isSymbolicLink(path) ? Files.readSymbolicLink(path).toString() : "";
    }

    /** The content behind a URL of the network; AccessControlException for any other: a file's would be read without Hadoop. */
    public static InputStream open(URL url) throws IOException {
        if (!NETWORK.contains(url.getProtocol())) {
            throw refusal(url);
        }
        return url.openStream();
    }

    /** Refuses the driver of Spark's own embedded database, which reads and writes any file that a statement names. */
    public static void checkDriver(String name) throws AccessControlException {
        if (name != null && name.strip().startsWith("org.apache.derby.")) {
            throw new ConfinedException(name + ": SQL may not use this driver, whose statements reach local files; use a database server");
        }
    }

    /** Sets what an option or a property of a table asks for; AccessControlException for a setting of Hadoop's file systems. */
    public static void setOption(Configuration settings, String name, String value) throws AccessControlException {
        for (String prefix : FILE_SYSTEM_SETTINGS) {
            if (name.strip().toLowerCase(Locale.ROOT).startsWith(prefix)) {
                throw new ConfinedException(name + ": SQL may not use this option; file systems are set up by the session's class");
            }
        }
        settings.set(name, value);
    }

    static List<Path> roots(Map<String, String> environment) {
        List<Path> roots = new ArrayList<>();
        for (String folder : environment.getOrDefault(ROOTS_VARIABLE, "").split(":")) {
            addRoot(roots, folder);
        }
        for (String folder : environment.getOrDefault(LOCAL_DIRS_VARIABLE, "").split(",")) {
            addRoot(roots, folder);
        }
        return List.copyOf(roots);
    }

    private static void addRoot(List<Path> roots, String folder) {
        if (!folder.startsWith("/")) {
            return;
        }
        Path path = Path.of(folder).normalize();
        try {
            roots.add(path.toRealPath());
        } catch (IOException absent) { // it may be made later; what it then is a link to decides at that time
            roots.add(path);
        }
    }

    /** Where a path leads: what of it exists with all links followed, the rest as it is written. */
    private static Path resolved(Path path) throws IOException {
        Path existing = path.toAbsolutePath();
        Deque<Path> rest = new ArrayDeque<>();
        Path real = realPath(existing);
        while (real == null) {
            if (existing.getParent() == null || existing.getFileName().toString().equals("..")) {
                throw new IOException("climbs from a folder that does not exist");
            }
            rest.push(existing.getFileName());
            existing = existing.getParent();
            real = realPath(existing);
        }
        for (Path name : rest) {
            real = real.resolve(name);
        }
        return real;
    }

    /** A path with all links followed, null where nothing is; IOException for a link to nothing. */
    private static Path realPath(Path path) throws IOException {
        if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
            return null;
        }
        try {
            return path.toRealPath();
        } catch (NoSuchFileException gone) {
            if (Files.isSymbolicLink(path)) {
                throw gone;
            }
            return null; // deleted meanwhile, as the folder of a writer that commits
        }
    }

    private static AccessControlException refusal(Object place) {
        return new ConfinedException(
                place + ": SQL may not use this local place, only what is in " + ROOTS + ". A class adds a folder by mounting a volume there");
    }
}
