package dev.sparksql.streaming;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.Tuple2;

/** Starts a query into a table that is given, as DataStreamWriter.toTable does into the one that it loads from the catalog itself. */
public final class StreamStart {
    private StreamStart() {}

    /** Returns the started query. Throws NoSuchMethodException if Spark starts it otherwise than in 4.1, or what Spark throws. */
    public static StreamingQuery into(DataStreamWriter<?> writer, Table table, TableCatalog catalog, Identifier identifier)
            throws Throwable {
        Method options = DataStreamWriter.class.getDeclaredMethod("extraOptions");
        Method start = DataStreamWriter.class.getDeclaredMethod(
                "startQuery", Table.class, CaseInsensitiveMap.class, boolean.class, Option.class, Option.class);
        options.setAccessible(true);
        start.setAccessible(true);
        try {
            Option<?> place = Option.apply(new Tuple2<>(catalog, identifier));
            return (StreamingQuery) start.invoke(writer, table, options.invoke(writer), true, place, Option.empty());
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }
}
