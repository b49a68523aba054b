package dev.sparksql.connect;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.sparkproject.connect.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;

/**
 * Makes the user that the gateway names the one that `current_user()` gives in what a request starts.
 *
 * <p>Spark's Connect service runs a plan in a thread that it makes while it takes the request, and Spark keeps the current user in a
 * thread-local that such a thread inherits. Nobody but the gateway reaches the service, and the gateway passes no such header of a client on.
 */
public final class UserOfRequest implements ServerInterceptor {
    private static final Metadata.Key<String> USER = Metadata.Key.of("x-sparksql-user", Metadata.ASCII_STRING_MARSHALLER);

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        ServerCall.Listener<Q> listener = next.startCall(call, headers);
        String header = headers.get(USER);
        return header == null ? listener : new OfUser<>(listener, URLDecoder.decode(header, StandardCharsets.UTF_8));
    }

    /** Handlers of the service work once the client has said all, see its `onHalfClose`. */
    private static final class OfUser<Q> extends SimpleForwardingServerCallListener<Q> {
        private final String user;

        OfUser(ServerCall.Listener<Q> listener, String user) {
            super(listener);
            this.user = user;
        }

        @Override
        public void onHalfClose() {
            InheritableThreadLocal<String> current = CurrentUserContext.CURRENT_USER();
            current.set(user);
            try {
                super.onHalfClose();
            } finally {
                current.remove();
            }
        }
    }
}
