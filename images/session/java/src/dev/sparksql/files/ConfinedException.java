package dev.sparksql.files;

import org.apache.hadoop.security.AccessControlException;

/** SQL may not use a local place, a driver or an option. The gateway knows the refusal by this type, which no server's answer has. */
public final class ConfinedException extends AccessControlException {
    private static final long serialVersionUID = 1L;

    ConfinedException(String message) {
        super(message);
    }
}
