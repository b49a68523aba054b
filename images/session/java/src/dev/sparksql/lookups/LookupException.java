package dev.sparksql.lookups;

/** The database of a lookup did not answer, or refused. */
public final class LookupException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String sqlState;

  LookupException(String table, String said, String sqlState) {
    super("the database of the lookup table " + table + " did not answer or refused: " + said);
    this.sqlState = sqlState;
  }

  /** The name of such errors, as Spark has for its own. */
  public String getCondition() {
    return "LOOKUP_FAILED";
  }

  /** What the database's driver gave; empty for none. */
  public String getSqlState() {
    return sqlState;
  }
}
