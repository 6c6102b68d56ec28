# One file, two images:
#   docker build --target actor -t farflung-actor .       actors and brokers; no torch
#   docker build --target learner -t farflung-learner .   the same, and training
ARG BASE=python:3.11-slim

# pip installs from deploy/pins, wheels only, and refuses a file whose hash is not there. Ours is built
# without a network by a setuptools from there.
FROM ${BASE} AS ours
WORKDIR /source
RUN python -m venv --without-pip /build && python -m venv --without-pip /farflung
COPY deploy/pins/build.txt ./
RUN pip --python /build/bin/python install --no-cache-dir --only-binary :all: --require-hashes \
    -r build.txt
COPY pyproject.toml README.md LICENSE ./
COPY farflung farflung
COPY common common
COPY actor actor
COPY broker broker
COPY learner learner
RUN pip --python /build/bin/python wheel --no-index --no-deps --no-build-isolation -w /built . \
 && pip --python /farflung/bin/python install --no-index --no-deps /built/*.whl

# Compile the standard library now: nothing may be written here later, so every start would compile
# it. pip compiles the packages that it installs.
FROM ${BASE} AS dependencies
RUN python -m compileall -q -x 'test|idlelib|-packages' \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && groupadd --gid 10001 farflung \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp farflung \
 && install -d -o farflung -g farflung -m 0700 /keys /actor-keys \
 && install -d -o farflung -g farflung /runs /receipts \
 && python -m venv --without-pip /farflung
ENV PATH=/farflung/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
WORKDIR /tmp
COPY deploy/pins/actor.txt /farflung/pins/
RUN pip --python /farflung/bin/python install --no-cache-dir --only-binary :all: --require-hashes \
    -r /farflung/pins/actor.txt

FROM dependencies AS actor
COPY --from=ours /farflung /farflung
COPY deploy/sbom.py /farflung/
RUN python /farflung/sbom.py > /farflung/sbom.cdx.json
USER farflung
ENV FARFLUNG_ACTOR_HEARTBEAT=/tmp/acting
# An actor touches this file every few seconds while it hears its learner and its loop turns.
# Check a broker with `learner status`.
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s \
    CMD test -n "$(find /tmp/acting -newermt '-30 seconds')"
ENTRYPOINT ["actor"]

# PINS are the lists to try in turn. The first one is of torch for CPUs, which pip finds only in an
# index that TORCH_INDEX names. The other is of the index of Python, and has CUDA.
FROM dependencies AS learner-dependencies
ARG PINS="learner learner-cuda"
ARG TORCH_INDEX=
COPY deploy/pins/learner.txt deploy/pins/learner-cuda.txt /farflung/pins/
RUN for list in ${PINS}; do \
      pip --python /farflung/bin/python install --no-cache-dir --only-binary :all: --require-hashes \
        -r "/farflung/pins/$list.txt" ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} && exit; \
    done; exit 1

FROM learner-dependencies AS learner
COPY --from=ours /farflung /farflung
COPY deploy/sbom.py /farflung/
RUN python /farflung/sbom.py > /farflung/sbom.cdx.json
USER farflung
EXPOSE 5555 5556
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s CMD ["learner", "status"]
ENTRYPOINT ["learner"]
CMD ["--run-dir", "/runs", "--resume", "auto"]
