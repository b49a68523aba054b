package dev.sparksql.formats;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.sparkproject.spark_core.protobuf.ByteString;
import org.sparkproject.spark_core.protobuf.CodedInputStream;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.EnumValueDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.spark_core.protobuf.DynamicMessage;
import org.sparkproject.spark_core.protobuf.Message;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads messages of Protobuf as rows, on executors: NULL for bytes that are none.
 *
 * <p>A field that can tell that it is not there is NULL then; one that cannot has its default, as Protobuf says.
 */
public final class ProtobufReader implements UDF1<byte[], Row> {
    private static final long serialVersionUID = 1;
    private static final int MOST_INDEXES = 100; // messages within each other; Protobuf itself reads a hundred
    // Seconds of the years 1 and 9999, and of 10,000 years: timestamp.proto and duration.proto.
    private static final long FIRST = -62_135_596_800L;
    private static final long LAST = 253_402_300_799L;
    private static final long LONGEST = 315_576_000_000L;

    private final byte[] set;
    private final String name;
    private final boolean hasHeader;
    private transient Descriptor message;

    private ProtobufReader(byte[] set, String name, boolean hasHeader) {
        this.set = set;
        this.name = name;
        this.hasHeader = hasHeader;
        message = ProtobufMessage.find(set, name);
    }

    /**
     * Returns a reader of a message in a FileDescriptorSet. With a header, a zero byte, an id of four bytes and the message's place in its
     * file stand before it (Confluent's wire format).
     *
     * @throws IllegalArgumentException with what is wrong, in words for users
     */
    public static ProtobufReader of(byte[] set, String name, boolean hasHeader) {
        return new ProtobufReader(set, name, hasHeader);
    }

    /** Returns it as a function of columns. Throws IllegalArgumentException for a message that is no row. */
    public UserDefinedFunction function() {
        return functions.udf((UDF1<byte[], Row>) this, ProtobufMessage.type(message)); // of several methods of this name
    }

    @Override
    public Row call(byte[] value) {
        if (value == null) {
            return null;
        }
        if (message == null) {
            message = ProtobufMessage.find(set, name);
        }
        try {
            CodedInputStream input = CodedInputStream.newInstance(value);
            if (hasHeader && !isOurs(input)) {
                return null;
            }
            int begin = input.getTotalBytesRead();
            return row(DynamicMessage.parseFrom(message, ByteString.copyFrom(value, begin, value.length - begin)));
        } catch (IOException | DateTimeException malformed) {
            return null;
        }
    }

    /** Reads the header; its indexes say which message of the file it is, and those that it is within. */
    private boolean isOurs(CodedInputStream input) throws IOException {
        if (input.readRawByte() != 0) {
            return false;
        }
        input.readRawBytes(Integer.BYTES);
        int length = input.readSInt32();
        if (length < 0 || length > MOST_INDEXES) {
            return false;
        }
        List<Integer> found = new ArrayList<>();
        for (int index = 0; index < length; index++) {
            found.add(input.readSInt32());
        }
        return (found.isEmpty() ? List.of(0) : found).equals(place(message));
    }

    private static List<Integer> place(Descriptor message) {
        List<Integer> place = new ArrayList<>();
        for (Descriptor each = message; each != null; each = each.getContainingType()) {
            place.add(0, each.getIndex());
        }
        return place;
    }

    private static Row row(Message read) {
        List<FieldDescriptor> fields = read.getDescriptorForType().getFields();
        Object[] values = new Object[fields.size()];
        for (int index = 0; index < values.length; index++) {
            FieldDescriptor field = fields.get(index);
            values[index] = field.hasPresence() && !read.hasField(field) ? null : value(field, read.getField(field));
        }
        return RowFactory.create(values);
    }

    private static Object value(FieldDescriptor field, Object value) {
        if (field.isMapField()) {
            List<FieldDescriptor> entry = field.getMessageType().getFields();
            Map<Object, Object> found = new HashMap<>();
            for (Object each : (List<?>) value) {
                Message pair = (Message) each;
                found.put(single(entry.get(0), pair.getField(entry.get(0))), single(entry.get(1), pair.getField(entry.get(1))));
            }
            return CollectionConverters.asScala(found);
        }
        if (field.isRepeated()) {
            List<Object> found = new ArrayList<>();
            ((List<?>) value).forEach(each -> found.add(single(field, each)));
            return CollectionConverters.asScala(found).toSeq();
        }
        return single(field, value);
    }

    private static Object single(FieldDescriptor field, Object value) {
        return switch (field.getType()) {
            case UINT32, FIXED32 -> Integer.toUnsignedLong((int) value);
            case UINT64, FIXED64 -> new BigDecimal(new BigInteger(Long.toUnsignedString((long) value)));
            case ENUM -> named((EnumValueDescriptor) value);
            case BYTES -> ((ByteString) value).toByteArray();
            case MESSAGE, GROUP -> message((Message) value);
            default -> value;
        };
    }

    private static Object message(Message value) {
        Descriptor type = value.getDescriptorForType();
        List<FieldDescriptor> fields = type.getFields();
        if (ProtobufMessage.isWrapper(type)) {
            return single(fields.get(0), value.getField(fields.get(0)));
        }
        return switch (type.getFullName()) {
            case ProtobufMessage.TIMESTAMP -> Instant.ofEpochSecond(seconds(value, FIRST, LAST), nanos(value));
            case ProtobufMessage.DURATION -> Duration.ofSeconds(seconds(value, -LONGEST, LONGEST), nanos(value));
            default -> row(value);
        };
    }

    private static int nanos(Message value) {
        return (int) value.getField(value.getDescriptorForType().getFields().get(1));
    }

    private static long seconds(Message value, long least, long most) {
        long found = (long) value.getField(value.getDescriptorForType().getFields().get(0));
        if (found < least || found > most) {
            throw new DateTimeException("out of range");
        }
        return found;
    }

    /** Returns the name, or the number of a value that the enum of the table does not have. */
    private static String named(EnumValueDescriptor value) {
        boolean isKnown = value.getType().findValueByNumber(value.getNumber()) != null;
        return isKnown ? value.getName() : String.valueOf(value.getNumber());
    }
}
