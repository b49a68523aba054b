#!/bin/sh
# Becomes the process of the pod's role; nothing stays in between, so signals reach Python or Java.
#   configure  the driver's init container: copies what a session is given into memory, from where the driver removes it
#   driver     our gateway, which starts the JVM itself
#   executor   Spark's backend for Kubernetes, told by the variables that Spark sets on the pods it makes
#   metastore  a Hive metastore on port 9083; $HIVE_CONF_DIR holds its hive-site.xml (and core-site.xml)
# Anything else is run as a command.
set -eu
launch=/opt/spark/launch

case "${1:-}" in
  configure)
    # $2: where the Secrets are mounted, $3: where to. The hash is looked at in the copy, since the mounted files may change meanwhile.
    umask 077
    tries=0
    until
      cp -fL "$2"/* "$3"
      case "$(sha256sum "$3/config.json")" in "${SPARKSQL_CONFIG_HASH:?}"*) true ;; *) false ;; esac
    do
      tries=$((tries + 1))
      if [ $tries -gt 240 ]; then
        echo "configure: $2/config.json has not had the hash $SPARKSQL_CONFIG_HASH within 120 s" >&2
        exit 1
      fi
      sleep 0.5
    done
    ;;
  driver)
    shift
    exec python3 -m sparksql.gateway.main "$@"
    ;;
  executor)
    # Spark numbers the options from 0. Ours come first, so that Spark's and the user's win.
    set -- "@$launch/executor.options"
    index=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$index+set}\" ]"; do
      eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$index\""
      index=$((index + 1))
    done
    # What is appended to the class path leaves the class-data archive valid; in front of it, it would not.
    # Spark's first connection to the driver knows a secret from the environment only. Pods that Spark makes do not have it there, where
    # all who may see pods would read it, but in a file.
    secret=/etc/sparksql-executor/executor-secret
    if [ -f $secret ]; then
      _SPARK_AUTH_SECRET=$(base64 -w0 $secret)
      export _SPARK_AUTH_SECRET
    fi
    exec java "$@" -Xmx"$SPARK_EXECUTOR_MEMORY" \
      -cp "$(cat $launch/classpath)${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  metastore)
    shift
    # Without hive.log4j.file Hive logs to a file in /tmp that only grows.
    # It makes and drops the folders that SQL names for databases and tables: never those of its own database.
    export SPARKSQL_FILE_ROOTS="${SPARKSQL_FILE_ROOTS:-/tmp}"
    exec java "@$launch/executor.options" -XX:+UseSerialGC -Xmx"${METASTORE_HEAP:-256m}" \
      -Dhive.log4j.file=$launch/log4j2.properties \
      -cp "$(cat $launch/classpath):${HIVE_CONF_DIR:-$launch/metastore}" \
      org.apache.hadoop.hive.metastore.HiveMetaStore -p 9083 "$@"
    ;;
  *)
    exec "$@"
    ;;
esac
