package dev.sparksql.functions;

import dev.sparksql.parsing.DeclaredFailure;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.execution.SparkSqlParser;
import scala.Function1;
import scala.runtime.BoxedUnit;

/**
 * Lets SQL functions work beside extensions whose parser cannot read their parameters.
 *
 * <p>Spark reads the parameters of a SQL function with the session's parser, when it is made and at each use. Iceberg's (1.12)
 * throws UnsupportedOperationException there instead of asking the parser below. This extension comes after all others and
 * stands in front of the parser that they made: it hands everything on, and what that one does not support to Spark's own.
 */
public final class FunctionParameters implements Function1<SparkSessionExtensions, BoxedUnit> {
  private static final String METHOD = "parseRoutineParam";

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser((session, parser) -> inFrontOf(parser));
    return BoxedUnit.UNIT;
  }

  private static ParserInterface inFrontOf(ParserInterface parser) {
    // Extensions look for their own interfaces on the session's parser, so it keeps all of them.
    Set<Class<?>> interfaces = new LinkedHashSet<>();
    interfaces.add(ParserInterface.class);
    for (Class<?> type = parser.getClass(); type != null; type = type.getSuperclass()) {
      interfaces.addAll(Set.of(type.getInterfaces()));
    }
    ClassLoader loader = parser.getClass().getClassLoader();
    return (ParserInterface) Proxy.newProxyInstance(loader, interfaces.toArray(Class<?>[]::new), handler(parser));
  }

  private static InvocationHandler handler(ParserInterface parser) {
    return (proxy, method, arguments) -> {
      try {
        return method.invoke(parser, arguments);
      } catch (InvocationTargetException thrown) {
        if (isUnsupported(method, thrown.getCause())) {
          return new SparkSqlParser().parseRoutineParam((String) arguments[0]);
        }
        throw DeclaredFailure.of(thrown.getCause());
      }
    };
  }

  private static boolean isUnsupported(Method method, Throwable cause) {
    return method.getName().equals(METHOD) && cause instanceof UnsupportedOperationException;
  }
}
