# One file, two images:
#   docker build --target actor -t farflung-actor .       actors and brokers; no torch
#   docker build --target learner -t farflung-learner .   the same and what training needs
ARG BASE=python:3.11-slim

# ---- what both need, in the order in which it changes: dependencies, then ours
FROM ${BASE} AS actor-dependencies
WORKDIR /source
RUN python -m venv --without-pip /farflung
COPY constraints.txt pyproject.toml deploy/requirements.py ./
RUN python requirements.py actor > actor.txt \
 && pip --python /farflung/bin/python install --no-cache-dir -c constraints.txt -r actor.txt

# pip's own settings decide which build of torch it is: the one for Linux in the usual index brings CUDA along, for a
# smaller one name an index of builds for the CPU.
FROM actor-dependencies AS learner-dependencies
ARG TORCH_INDEX=
RUN python requirements.py learner > learner.txt \
 && pip --python /farflung/bin/python install --no-cache-dir -c constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r learner.txt

FROM ${BASE} AS ours
WORKDIR /source
RUN python -m venv --without-pip /farflung
COPY pyproject.toml README.md LICENSE ./
COPY common common
COPY actor actor
COPY broker broker
COPY learner learner
RUN pip --python /farflung/bin/python install --no-cache-dir --no-deps .

# ---- what they run on
FROM ${BASE} AS ground
# The root file system is read-only and the user may not write there: whatever is not compiled now is compiled at each start.
RUN python -m compileall -q -x 'test|idlelib|site-packages|dist-packages' "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && groupadd --gid 10001 farflung && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp farflung \
 && install -d -o farflung -g farflung -m 0700 /keys /actor-keys && install -d -o farflung -g farflung /runs /receipts
ENV PATH=/farflung/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
WORKDIR /tmp
USER farflung

# ---- the images
FROM ground AS actor
COPY --from=actor-dependencies /farflung /farflung
COPY --from=ours /farflung /farflung
ENV FARFLUNG_HEARTBEAT=/tmp/acting
# Touched every few seconds while it hears its learner and its loop turns. A broker's health is `learner status`.
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s CMD test -n "$(find /tmp/acting -newermt '-30 seconds')"
ENTRYPOINT ["actor"]

FROM ground AS learner
COPY --from=learner-dependencies /farflung /farflung
COPY --from=ours /farflung /farflung
EXPOSE 5555 5556
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s CMD ["learner", "status"]
ENTRYPOINT ["learner"]
CMD ["--run-dir", "/runs", "--resume", "auto"]
