package dev.sparksql.connect;

import java.util.ArrayList;
import java.util.List;
import org.sparkproject.connect.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import org.sparkproject.connect.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;

/**
 * Gives the gateway the types of a Java error that ends a call, such as a StackOverflowError.
 *
 * <p>Spark's Connect service makes a status with details of exceptions alone. An error of the JVM has the status UNKNOWN and its
 * message, which is often empty (ErrorUtils.handleError of Spark 4.1), so that nothing else shows what it was. The gateway keeps
 * the trailer for itself.
 */
public final class ErrorOfCall implements ServerInterceptor {
    private static final Metadata.Key<String> TYPES = Metadata.Key.of("x-sparksql-error", Metadata.ASCII_STRING_MARSHALLER);
    private static final int MAX_CAUSES = 32;

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        ServerCall<Q, R> told = new Told<>(call);
        return new Guarded<>(next.startCall(told, headers), told);
    }

    /** Returns the names of an error's type and supertypes, empty without an error among the causes. */
    private static String typesOf(Throwable thrown) {
        int causes = 0;
        while (thrown != null && !(thrown instanceof Error) && causes++ < MAX_CAUSES) {
            thrown = thrown.getCause();
        }
        List<String> names = new ArrayList<>();
        if (thrown instanceof Error) {
            for (Class<?> type = thrown.getClass(); type != null; type = type.getSuperclass()) {
                names.add(type.getName());
            }
        }
        return String.join(",", names);
    }

    private static final class Told<Q, R> extends SimpleForwardingServerCall<Q, R> {
        Told(ServerCall<Q, R> call) {
            super(call);
        }

        @Override
        public void close(Status status, Metadata trailers) {
            String types = typesOf(status.getCause());
            if (!types.isEmpty()) {
                trailers.put(TYPES, types);
            }
            super.close(status, trailers);
        }
    }

    /** Handlers work within `onHalfClose`; what they throw ends the call without a trailer. */
    private static final class Guarded<Q, R> extends SimpleForwardingServerCallListener<Q> {
        private final ServerCall<Q, R> call;

        Guarded(ServerCall.Listener<Q> listener, ServerCall<Q, R> call) {
            super(listener);
            this.call = call;
        }

        @Override
        public void onHalfClose() {
            try {
                super.onHalfClose();
            } catch (StackOverflowError error) {
                call.close(Status.UNKNOWN.withCause(error), new Metadata());
            }
        }
    }
}
