# Makes the cluster with a role and a database for each service the first time, then runs the server.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    fresh="$PGDATA.new"
    rm -rf "$fresh"
    printf '%s' "$PASSWORD" > /tmp/password
    initdb -D "$fresh" -U postgres --auth-local=trust --auth-host=scram-sha-256 --pwfile=/tmp/password \
        --encoding=UTF8 --locale=C --data-checksums >/dev/null
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$fresh/pg_hba.conf"
    pg_ctl -D "$fresh" -w -s -o "-c listen_addresses='' -k /tmp" start
    for service in $SERVICES; do
        eval "password=\$PASSWORD_$service"
        psql -h /tmp -U postgres -q -v ON_ERROR_STOP=1 <<SQL
CREATE ROLE limpet_$service LOGIN PASSWORD '$password';
CREATE DATABASE limpet_$service OWNER limpet_$service;
REVOKE CONNECT ON DATABASE limpet_$service FROM PUBLIC;
SQL
    done
    pg_ctl -D "$fresh" -w -s -m fast stop
    # Only what is complete gets the name that is looked for.
    mv "$fresh" "$PGDATA"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp -c max_connections=300 \
    -c wal_compression=on -c checkpoint_timeout=15min -c max_wal_size=2GB -c jit=off
