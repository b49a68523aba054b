package dev.sparksql.parsing;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import scala.Option;

/**
 * What a parser behind a java.lang.reflect.Proxy may throw. ParserInterface declares ParseException alone, and Spark's parser throws
 * AnalysisException as well, for an unbound parameter for instance: the proxy would hide it in an exception without a message.
 */
public final class DeclaredFailure {
    private DeclaredFailure() {}

    /** Returns a failure as it is, or as a ParseException of the same condition. */
    public static Throwable of(Throwable failure) {
        if (failure instanceof ParseException
                || !(failure instanceof AnalysisException analysis)
                || analysis.getCondition() == null) {
            return failure;
        }
        ParseException declared = new ParseException(
                Option.empty(), analysis.origin(), analysis.getCondition(), analysis.messageParameters(), analysis.getQueryContext());
        declared.addSuppressed(analysis); // its cause has been set, to none
        return declared;
    }
}
