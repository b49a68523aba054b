import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * The released Flink JDBC driver. Arguments: URL, file of queries (a line each: name, tab, Base64 of the SQL, tab, whether rows
 * are read), database, properties as key=value. Prints a JSON line for each answer.
 */
public class Jdbc {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private interface Action {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Class.forName("org.apache.flink.table.jdbc.FlinkDriver");
        String url = arguments[0];
        String database = arguments[2];
        Properties properties = new Properties();
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.setProperty(pair[0], pair[1]);
        }
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            for (String line : Files.readAllLines(Path.of(arguments[1]))) {
                String[] parts = line.split("\t");
                String sql = new String(Base64.getDecoder().decode(parts[1]), StandardCharsets.UTF_8);
                guarded(parts[0], () -> query(connection, parts[0], sql, parts[2].equals("true")));
            }
            guarded("names", () -> names(connection, database));
            guarded("metadata", () -> metadata(connection, database));
            guarded("info", () -> info(connection));
            guarded("two_results", () -> twoResults(connection));
            guarded("stream", () -> stream(connection, database));
        }
        guarded("url", () -> urlParts(url, database, properties));
        guarded("closed", () -> answer("closed", "\"value\":true"));
    }

    private static void query(Connection connection, String name, String sql, boolean fetch) throws Exception {
        try (Statement statement = connection.createStatement()) {
            if (!fetch) {
                statement.execute(sql);
                return;
            }
            boolean isQuery = sql.matches("(?is)\\s*(SELECT|WITH|VALUES)\\b.*");
            if (!isQuery && !statement.execute(sql)) {
                answer(name, "\"columns\":[],\"rows\":[]");
                return;
            }
            try (ResultSet rows = isQuery ? statement.executeQuery(sql) : statement.getResultSet()) {
                ResultSetMetaData described = rows.getMetaData();
                List<String> columns = new ArrayList<>();
                for (int i = 1; i <= described.getColumnCount(); i++) {
                    columns.add(text(described.getColumnName(i)));
                }
                answer(name, "\"columns\":[" + String.join(",", columns) + "],\"rows\":[" + String.join(",", read(rows)) + "]");
            }
        }
    }

    private static List<String> read(ResultSet rows) throws Exception {
        int width = rows.getMetaData().getColumnCount();
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            List<String> cells = new ArrayList<>();
            for (int i = 1; i <= width; i++) {
                cells.add(plain(rows.getObject(i)));
            }
            lines.add("[" + String.join(",", cells) + "]");
        }
        return lines;
    }

    private static void names(Connection connection, String database) throws Exception {
        String catalog = connection.getCatalog();
        String before = connection.getSchema();
        connection.setSchema(database);
        String after = connection.getSchema();
        connection.setCatalog(catalog);
        connection.setSchema(before);
        answer("names", "\"catalog\":" + text(catalog) + ",\"before\":" + text(before) + ",\"after\":" + text(after));
    }

    private static void metadata(Connection connection, String database) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        List<String> catalogs = new ArrayList<>();
        try (ResultSet rows = metadata.getCatalogs()) {
            while (rows.next()) {
                catalogs.add(text(rows.getString(1)));
            }
        }
        List<String> schemas = new ArrayList<>();
        try (ResultSet rows = metadata.getSchemas()) {
            while (rows.next()) {
                schemas.add("[" + text(rows.getString(1)) + "," + text(rows.getString(2)) + "]");
            }
        }
        answer("metadata", "\"catalogs\":[" + String.join(",", catalogs) + "],\"schemas\":[" + String.join(",", schemas) + "],\"product\":" + text(metadata.getDatabaseProductName()));
    }

    private static void info(Connection connection) throws Exception {
        connection.setClientInfo("spark.sql.shuffle.partitions", "9");
        answer("info", "\"value\":" + text(connection.getClientInfo("spark.sql.shuffle.partitions")));
    }

    /** A result that is not read to its end does not keep other statements of the connection waiting. */
    private static void twoResults(Connection connection) throws Exception {
        try (Statement first = connection.createStatement(); Statement second = connection.createStatement()) {
            ResultSet rows = first.executeQuery("SELECT id FROM range(20000)");
            rows.next();
            ResultSet other = second.executeQuery("SELECT 7 AS n");
            other.next();
            long count = 1;
            while (rows.next()) {
                count++;
            }
            answer("two_results", "\"value\":[" + other.getInt(1) + "," + count + "]");
        }
    }

    /** Rows of a query without end are read as they are written. */
    private static void stream(Connection connection, String database) throws Exception {
        String table = database + ".streamed";
        try (Statement writer = connection.createStatement(); Statement reader = connection.createStatement()) {
            writer.execute("CREATE TABLE " + table + " (v INT) USING parquet");
            List<String> seen = new ArrayList<>();
            try (ResultSet rows = reader.executeQuery("SELECT v FROM STREAM " + table)) {
                for (int v = 1; v <= 2; v++) {
                    writer.execute("INSERT INTO " + table + " VALUES (" + v + ")");
                    rows.next();
                    seen.add(String.valueOf(rows.getInt(1)));
                }
            }
            answer("stream", "\"value\":[" + String.join(",", seen) + "]");
        }
    }

    private static void urlParts(String url, String database, Properties properties) throws Exception {
        String catalog;
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            catalog = connection.getCatalog();
        }
        String place = url + "/" + catalog + "/" + database;
        try (Connection connection = DriverManager.getConnection(place + "?spark.sql.shuffle.partitions=11&spark.sql.gateway.session.share-views=true", properties)) {
            query(connection, "shared_view_true", "SELECT n FROM shared", true);
            answer("url", "\"database\":" + text(connection.getSchema()) + ",\"property\":" + text(connection.getClientInfo("spark.sql.shuffle.partitions")));
        }
    }

    private static void guarded(String name, Action action) {
        try {
            action.run();
        } catch (Throwable failure) { // the driver throws unchecked ones
            StringBuilder shown = new StringBuilder();
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                shown.append(cause).append('\n');
            }
            answer(name, "\"error\":" + text(shown.toString()) + ",\"kind\":" + text(failure.getClass().getName()));
        }
    }

    private static void answer(String name, String fields) {
        OUT.println("{\"name\":" + text(name) + "," + fields + "}");
    }

    private static String plain(Object value) {
        if (value == null || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof BigDecimal decimal) {
            return "{\"decimal\":" + text(decimal.toPlainString()) + "}";
        }
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            return Double.isFinite(number) ? String.valueOf(number) : text(String.valueOf(number));
        }
        if (value instanceof Number) {
            return String.valueOf(value);
        }
        if (value instanceof byte[] bytes) {
            StringBuilder hex = new StringBuilder();
            for (byte one : bytes) {
                hex.append(String.format("%02x", one));
            }
            return "{\"bytes\":" + text(hex.toString()) + "}";
        }
        if (value instanceof java.sql.Date) {
            return "{\"date\":" + text(value.toString()) + "}";
        }
        if (value instanceof java.sql.Timestamp) {
            return "{\"timestamp\":" + text(value.toString()) + "}";
        }
        if (value instanceof Map<?, ?> map) {
            List<String> pairs = new ArrayList<>();
            map.forEach((key, item) -> pairs.add("[" + plain(key) + "," + plain(item) + "]"));
            return "{\"map\":[" + String.join(",", pairs) + "]}";
        }
        return text(value.toString());
    }

    private static String text(String value) {
        if (value == null) {
            return "null";
        }
        StringBuilder shown = new StringBuilder("\"");
        for (char one : value.toCharArray()) {
            if (one == '"' || one == '\\') {
                shown.append('\\').append(one);
            } else if (one < ' ') {
                shown.append(String.format("\\u%04x", (int) one));
            } else {
                shown.append(one);
            }
        }
        return shown.append('"').toString();
    }
}
