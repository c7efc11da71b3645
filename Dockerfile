# FisherGCN on the CPU. Build:  docker build --tag fishergcn .
# Use:  docker run --rm --volume "$PWD:/data" fishergcn train --edges links.csv --labels labels.csv --out model
FROM python:3.12-slim

# Where torch comes from: pip's own index if empty. The index address that PyTorch's own install page names for the CPU
# has a build for the CPU alone, a tenth of the size of the build with CUDA.
ARG TORCH_INDEX=
WORKDIR /opt/fishergcn
COPY constraints.txt ./
RUN python -m pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m pip install --no-cache-dir --constraint constraints.txt ".[report,sklearn,tune]"

# Not as root. Whatever is compiled for the CPU at the first use is kept where this user may write.
RUN useradd --create-home --uid 1000 fishergcn && mkdir /data && chown fishergcn /data
USER 1000
ENV NUMBA_CACHE_DIR=/home/fishergcn/.cache/numba
WORKDIR /data
ENTRYPOINT ["fishergcn"]
CMD ["--help"]
