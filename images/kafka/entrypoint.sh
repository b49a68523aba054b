#!/bin/sh
# Serves Kafka on port 9092, with its data in /data. Clients come back to ADVERTISE (host:port), which is the pod's own address
# unless it is given.
set -eu
data=/data/kafka
properties=/tmp/server.properties
sed -e "s|@LISTEN@|0.0.0.0:9092|" -e "s|@ADVERTISE@|${ADVERTISE:-$(hostname -i | cut -d' ' -f1):9092}|" \
  -e "s|@CONTROLLER_PORT@|9093|g" -e "s|@DATA@|$data|" /opt/kafka/server.properties >"$properties"
java -cp '/opt/kafka/jars/*' kafka.tools.StorageTool format --ignore-formatted \
  --cluster-id "${CLUSTER_ID:-c3BhcmstcXVlcnktdGVzdA}" --config "$properties" >/dev/null
exec java -Xms64m -Xmx"${HEAP:-256m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -Dlog4j2.configurationFile=/opt/kafka/log4j2.xml -cp '/opt/kafka/jars/*' kafka.Kafka "$properties"
