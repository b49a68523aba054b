package dev.sparksql.formats;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorProto;
import org.sparkproject.spark_core.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.spark_core.protobuf.Descriptors.Descriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.DescriptorValidationException;
import org.sparkproject.spark_core.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.spark_core.protobuf.Descriptors.FileDescriptor;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;

/** A message of Protobuf and the type of the rows that it is read as. Spark's own jar has the classes that read it. */
final class ProtobufMessage {
    static final String TIMESTAMP = "google.protobuf.Timestamp";
    static final String DURATION = "google.protobuf.Duration";
    private static final String PACKAGE = "google.protobuf.";
    private static final String VALUE = "Value";

    private ProtobufMessage() {}

    /**
     * Returns the message of a name in a set of files, each of which comes behind those that it imports or not.
     *
     * @throws IllegalArgumentException with what is wrong, in words for users
     */
    static Descriptor find(byte[] set, String name) {
        FileDescriptorSet files;
        try {
            files = FileDescriptorSet.parseFrom(set);
        } catch (InvalidProtocolBufferException failed) {
            throw new IllegalArgumentException("is not a FileDescriptorSet, as protoc --descriptor_set_out writes it");
        }
        Map<String, FileDescriptorProto> given = new HashMap<>();
        files.getFileList().forEach(file -> given.put(file.getName(), file));
        Map<String, FileDescriptor> built = new HashMap<>();
        List<String> known = new ArrayList<>();
        for (FileDescriptorProto file : files.getFileList()) {
            for (Descriptor message : built(file, given, built, new ArrayDeque<>()).getMessageTypes()) {
                Descriptor found = find(message, name, known);
                if (found != null) {
                    return found;
                }
            }
        }
        throw new IllegalArgumentException("has no message " + name + ", it has " + String.join(", ", known));
    }

    private static Descriptor find(Descriptor message, String name, List<String> known) {
        if (message.getFullName().equals(name)) {
            return message;
        }
        known.add(message.getFullName());
        for (Descriptor nested : message.getNestedTypes()) {
            Descriptor found = nested.getOptions().getMapEntry() ? null : find(nested, name, known);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static FileDescriptor built(
            FileDescriptorProto file, Map<String, FileDescriptorProto> given, Map<String, FileDescriptor> built, Deque<String> under) {
        if (built.containsKey(file.getName())) {
            return built.get(file.getName());
        }
        if (under.contains(file.getName())) {
            throw new IllegalArgumentException("has files that import each other: " + file.getName());
        }
        under.push(file.getName());
        List<FileDescriptor> imported = new ArrayList<>();
        for (String name : file.getDependencyList()) {
            if (!given.containsKey(name)) {
                throw new IllegalArgumentException("lacks the file " + name + ", which " + file.getName() + " imports: "
                        + "make it by protoc --include_imports");
            }
            imported.add(built(given.get(name), given, built, under));
        }
        under.pop();
        try {
            built.put(file.getName(), FileDescriptor.buildFrom(file, imported.toArray(new FileDescriptor[0])));
        } catch (DescriptorValidationException failed) {
            throw new IllegalArgumentException("has a file that is not valid: " + failed.getMessage());
        }
        return built.get(file.getName());
    }

    /** Returns the type of a message's rows. Throws IllegalArgumentException for a field that has no type in Spark. */
    static StructType type(Descriptor message) {
        return type(message, new ArrayDeque<>());
    }

    private static StructType type(Descriptor message, Deque<String> within) {
        if (within.contains(message.getFullName())) {
            throw new IllegalArgumentException("has message " + message.getFullName() + " within itself, which no column can be");
        }
        if (message.getFields().isEmpty()) {
            throw new IllegalArgumentException("has message " + message.getFullName() + " without fields, which no column can be");
        }
        within.push(message.getFullName());
        List<StructField> fields = new ArrayList<>();
        for (FieldDescriptor field : message.getFields()) {
            fields.add(DataTypes.createStructField(field.getName(), type(field, within), true));
        }
        within.pop();
        return DataTypes.createStructType(fields);
    }

    private static DataType type(FieldDescriptor field, Deque<String> within) {
        if (field.isMapField()) {
            List<FieldDescriptor> entry = field.getMessageType().getFields();
            return DataTypes.createMapType(single(entry.get(0), within), single(entry.get(1), within), true);
        }
        return field.isRepeated() ? DataTypes.createArrayType(single(field, within), true) : single(field, within);
    }

    private static DataType single(FieldDescriptor field, Deque<String> within) {
        return switch (field.getType()) {
            case INT32, SINT32, SFIXED32 -> DataTypes.IntegerType;
            case INT64, SINT64, SFIXED64, UINT32, FIXED32 -> DataTypes.LongType;
            case UINT64, FIXED64 -> DataTypes.createDecimalType(20, 0);
            case BOOL -> DataTypes.BooleanType;
            case FLOAT -> DataTypes.FloatType;
            case DOUBLE -> DataTypes.DoubleType;
            case STRING, ENUM -> DataTypes.StringType;
            case BYTES -> DataTypes.BinaryType;
            case MESSAGE, GROUP -> isWrapper(field.getMessageType())
                    ? single(field.getMessageType().getFields().get(0), within)
                    : switch (field.getMessageType().getFullName()) {
                        case TIMESTAMP -> DataTypes.TimestampType;
                        case DURATION -> DataTypes.createDayTimeIntervalType();
                        default -> type(field.getMessageType(), within);
                    };
        };
    }

    /** Returns whether a message is one of Protobuf's own around one value, which may be there or not. */
    static boolean isWrapper(Descriptor message) {
        String name = message.getFullName();
        return name.startsWith(PACKAGE)
                && name.endsWith(VALUE)
                && message.getFields().size() == 1
                && message.getFields().get(0).getName().equals("value");
    }
}
