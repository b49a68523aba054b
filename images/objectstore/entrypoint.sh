#!/bin/sh
# Serves /data on port 7070, with ROOT_ACCESS_KEY and ROOT_SECRET_KEY as the one account. BUCKETS names, separated by spaces,
# the buckets that are there from the start: with this backend a bucket is a folder.
set -eu
for bucket in ${BUCKETS:-}; do
  mkdir -p "/data/$bucket"
done
exec versitygw --port :7070 posix /data
