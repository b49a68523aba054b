package dev.sparksql.plans;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;

/** Functions that users have written in Java. */
final class JavaFunctions {
  private static final int WRAPPINGS = 3;

  private JavaFunctions() {}

  /** The class of a Java function of the user's that has no state, behind what Spark wraps it in; null for anything else. */
  static String className(Object value) {
    return found(value, WRAPPINGS);
  }

  private static String found(Object value, int depth) {
    if (value == null || depth == 0) {
      return null;
    }
    boolean isFunction =
        Arrays.stream(value.getClass().getInterfaces())
            .anyMatch(each -> each.getName().startsWith("org.apache.spark.sql.api.java.UDF"));
    List<Field> state =
        Arrays.stream(value.getClass().getDeclaredFields()).filter(each -> !Modifier.isStatic(each.getModifiers())).toList();
    if (isFunction) {
      boolean isNamed = !value.getClass().isHidden() && value.getClass().getSuperclass() == Object.class;
      return state.isEmpty() && isNamed ? value.getClass().getName() : null;
    }
    if (!value.getClass().isHidden() || state.size() != 1) {
      return null;
    }
    try {
      state.get(0).setAccessible(true);
      return found(state.get(0).get(value), depth - 1);
    } catch (IllegalAccessException | RuntimeException hidden) {
      return null;
    }
  }
}
