# trninfer on the simulator, with the server: for any machine, no Trainium needed.
# Untried: written where no Docker daemon runs. The same lines of pip work in a fresh virtual environment.
#
#   docker build -t trninfer .
#   docker run --rm trninfer                                           # the bundled samples
#   docker run --rm -v "$PWD:/data" trninfer classify /data/7.png
#   docker run --rm -p 8000:8000 trninfer serve --host 0.0.0.0   # prints a token (docs/serving.md)
FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /opt/trninfer && /opt/trninfer/bin/pip install --no-cache-dir "/source[serve,onnx]"

FROM python:3.13-slim
COPY --from=build /opt/trninfer /opt/trninfer
COPY samples /data/samples
RUN useradd --create-home trninfer
USER trninfer
ENV PATH=/opt/trninfer/bin:$PATH
WORKDIR /data
ENTRYPOINT ["trninfer"]
CMD ["classify", "samples"]
