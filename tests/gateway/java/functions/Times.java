package example.functions;

import org.apache.spark.sql.api.java.UDF1;

/** A function with state, which its class does not tell. */
public final class Times implements UDF1<Integer, Integer> {
  private static final long serialVersionUID = 1;

  private final int factor;

  public Times(int factor) {
    this.factor = factor;
  }

  @Override
  public Integer call(Integer value) {
    return factor * value;
  }
}
