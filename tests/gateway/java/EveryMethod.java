import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.AccessControlException;

/** Calls every method that takes a path, of every local file system there is, and prints what came of it: CLASS METHOD TAB OUTCOME. */
public final class EveryMethod {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        Path allowed = new Path(arguments[0]);
        Path foreign = new Path(arguments[1]);
        URI root = URI.create("file:///");
        Object[] systems = {
            FileSystem.getLocal(conf),
            FileSystem.newInstance(root, conf),
            initialised(new RawLocalFileSystem(), conf),
            initialised(new LocalFileSystem(), conf),
            AbstractFileSystem.get(root, conf),
            AbstractFileSystem.createFileSystem(root, conf),
        };
        for (Object system : systems) {
            for (Method method : system.getClass().getMethods()) {
                if (Modifier.isStatic(method.getModifiers())) {
                    continue;
                }
                Class<?>[] types = method.getParameterTypes();
                for (int position = 0; position < types.length; position++) {
                    if (types[position] == Path.class || types[position] == Path[].class) {
                        System.out.println(line(system, method, position, allowed, foreign, conf));
                    }
                }
            }
        }
    }

    private static FileSystem initialised(FileSystem system, Configuration conf) throws IOException {
        system.initialize(URI.create("file:///"), conf);
        return system;
    }

    private static String line(Object system, Method method, int position, Path allowed, Path foreign, Configuration conf) {
        Class<?>[] types = method.getParameterTypes();
        Object[] values = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            values[i] = value(types[i], i == position ? foreign : allowed);
        }
        String outcome;
        try {
            Object result = method.invoke(system, values);
            if (result instanceof RemoteIterator) {
                ((RemoteIterator<?>) result).hasNext();
            } else if (result instanceof FutureDataInputStreamBuilder) {
                ((FutureDataInputStreamBuilder) result).build().get();
            } else if (result instanceof Future) {
                ((Future<?>) result).get();
            } else if (result instanceof FSDataOutputStreamBuilder) {
                ((FSDataOutputStreamBuilder<?, ?>) result).build();
            } else if (result instanceof BulkDelete) {
                result = ((BulkDelete) result).bulkDelete(List.of(foreign));
            }
            outcome = "returned " + (result == null ? "null" : result instanceof Object[] ? Arrays.toString((Object[]) result) : result);
        } catch (InvocationTargetException thrown) {
            Throwable cause = thrown.getCause();
            while (cause.getCause() != null && !(cause instanceof AccessControlException)) {
                cause = cause.getCause();
            }
            outcome = cause.getClass().getSimpleName() + " " + cause.getMessage();
        } catch (Exception other) {
            Throwable cause = other.getCause() == null ? other : other.getCause();
            outcome = cause.getClass().getSimpleName() + " " + cause.getMessage();
        }
        String name = system.getClass().getSimpleName() + " " + method.getName() + Arrays.toString(Arrays.stream(types)
                .map(Class::getSimpleName).toArray()) + position;
        return name + "\t" + outcome.replace('\n', ' ');
    }

    private static Object value(Class<?> type, Path path) {
        if (type == Path.class) {
            return path;
        }
        if (type == Path[].class) {
            return new Path[] {path};
        }
        if (type == boolean.class) {
            return false;
        }
        if (type == int.class || type == short.class || type == long.class) {
            return type == int.class ? (Object) 4096 : type == short.class ? (Object) (short) 1 : (Object) 4096L;
        }
        if (type == String.class) {
            return "user.x";
        }
        if (type == FsPermission.class) {
            return FsPermission.getFileDefault();
        }
        if (type == EnumSet.class) {
            return EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
        }
        if (type == Options.CreateOpts[].class) {
            return new Options.CreateOpts[] {Options.CreateOpts.perms(FsPermission.getFileDefault()), Options.CreateOpts.createParent()};
        }
        if (type == Options.Rename[].class) {
            return new Options.Rename[] {Options.Rename.OVERWRITE};
        }
        if (type == OpenFileParameters.class) {
            return new OpenFileParameters().withMandatoryKeys(Set.of()).withOptions(new Configuration(false)).withBufferSize(4096);
        }
        if (type == byte[].class) {
            return new byte[0];
        }
        return null;
    }
}
