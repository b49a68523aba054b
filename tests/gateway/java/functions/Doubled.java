package example.functions;

import org.apache.spark.sql.api.java.UDF1;

/** A function without state, told by its class. */
public final class Doubled implements UDF1<Integer, Integer> {
  private static final long serialVersionUID = 1;

  @Override
  public Integer call(Integer value) {
    return 2 * value;
  }
}
