package dev.sparksql.lookups;

import java.time.Instant;

/** A row needs a version of a table that the table has no more. */
public final class ExpiredVersionException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  ExpiredVersionException(String table, Instant time) {
    super("the version of " + table + " at " + time + " is expired: a row of that time cannot be joined with it. Leave such rows out by "
        + "WHERE, or join the table as it is now, without AS OF");
  }

  /** The name of such errors, as Spark has for its own. */
  public String getCondition() {
    return "LOOKUP_VERSION_EXPIRED";
  }

  /** None: no database has said so. */
  public String getSqlState() {
    return "";
  }
}
