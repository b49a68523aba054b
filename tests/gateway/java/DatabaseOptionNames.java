import java.lang.reflect.Modifier;
import java.lang.reflect.Method;
import java.util.Locale;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.postgresql.PGProperty;

/** The names of the options that PostgreSQL's driver and Spark's jdbc source know, one a line behind `driver` or `spark`. */
final class DatabaseOptionNames {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        for (PGProperty property : PGProperty.values()) {
            System.out.println("driver " + property.getName());
        }
        for (Method method : JDBCOptions.class.getMethods()) {
            if (Modifier.isStatic(method.getModifiers()) && method.getName().startsWith("JDBC_")) {
                System.out.println("spark " + method.invoke(null).toString().toLowerCase(Locale.ROOT));
            }
        }
    }
}
