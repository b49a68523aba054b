import java.io.StringReader;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFInFile;
import org.apache.hadoop.hive.serde2.dynamic_type.thrift_grammar;
import org.apache.hadoop.mapreduce.lib.db.DBConfiguration;
import org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry;
import org.apache.spark.sql.util.ProtobufUtils;

/** Has each method that opens files without Hadoop open one, the argument: a line with its name, a tab and what it has thrown. */
final class LibraryFiles {
    private interface Opening {
        void open() throws Throwable;
    }

    public static void main(String[] arguments) {
        String file = arguments[0];
        outcome("protobuf", () -> ProtobufUtils.readDescriptorFileContent(file));
        outcome("absent", () -> ProtobufUtils.readDescriptorFileContent(file + ".absent"));
        outcome("in_file", () -> {
            Method reader = GenericUDFInFile.class.getDeclaredMethod("getReaderFor", String.class);
            reader.setAccessible(true);
            reader.invoke(new GenericUDFInFile(), file);
        });
        outcome("include", () -> {
            String text = "include \"" + file + "\" struct s { string a }";
            new thrift_grammar(new StringReader(text)).Start();
        });
        outcome("database", () -> {
            Configuration settings = new Configuration(false);
            settings.set(DBConfiguration.DRIVER_CLASS_PROPERTY, "org.apache.derby.iapi.jdbc.AutoloadedDriver");
            settings.set(DBConfiguration.URL_PROPERTY, "jdbc:derby:" + file + ".database;create=true");
            new DBConfiguration(settings).getConnection();
        });
        outcome("driver", () -> DriverRegistry.register("org.apache.derby.iapi.jdbc.AutoloadedDriver"));
    }

    private static void outcome(String name, Opening opening) {
        String told = "opened";
        try {
            opening.open();
        } catch (InvocationTargetException | UncheckedIOException failed) {
            told = failed.getCause().toString();
        } catch (Throwable failed) {
            told = failed.toString();
        }
        System.out.println(name + "\t" + told.replace('\n', ' '));
    }
}
