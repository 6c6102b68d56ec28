# One file, two images:
#   docker build --target actor -t farflung-actor .       actors and brokers; no torch
#   docker build --target learner -t farflung-learner .   the same, and training
ARG BASE=python:3.11-slim

# The lists of requirements: the layers below are rebuilt when these lists change, and not at every
# change of pyproject.toml.
FROM ${BASE} AS requirements
WORKDIR /source
COPY pyproject.toml deploy/requirements.py ./
RUN python requirements.py actor > actor.txt && python requirements.py learner > learner.txt

FROM ${BASE} AS ours
WORKDIR /source
RUN python -m venv --without-pip /farflung
COPY pyproject.toml README.md LICENSE ./
COPY farflung farflung
COPY common common
COPY actor actor
COPY broker broker
COPY learner learner
RUN pip --python /farflung/bin/python install --no-cache-dir --no-deps .

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
COPY constraints.txt /farflung/
COPY --from=requirements /source/actor.txt /farflung/
RUN pip --python /farflung/bin/python install --no-cache-dir \
    -c /farflung/constraints.txt -r /farflung/actor.txt

FROM dependencies AS actor
COPY --from=ours /farflung /farflung
USER farflung
ENV FARFLUNG_ACTOR_HEARTBEAT=/tmp/acting
# An actor touches this file every few seconds while it hears its learner and its loop turns.
# Check a broker with `learner status`.
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s \
    CMD test -n "$(find /tmp/acting -newermt '-30 seconds')"
ENTRYPOINT ["actor"]

# The default torch for Linux includes CUDA. TORCH_INDEX names an index with other builds.
FROM dependencies AS learner-dependencies
ARG TORCH_INDEX=
COPY --from=requirements /source/learner.txt /farflung/
RUN pip --python /farflung/bin/python install --no-cache-dir \
    -c /farflung/constraints.txt -r /farflung/learner.txt \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"}

FROM learner-dependencies AS learner
COPY --from=ours /farflung /farflung
USER farflung
EXPOSE 5555 5556
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s CMD ["learner", "status"]
ENTRYPOINT ["learner"]
CMD ["--run-dir", "/runs", "--resume", "auto"]
