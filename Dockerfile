# The service alone, linked statically, on a base without a shell. Two arguments name the bases; BUILDER may
# be any Debian with Rust, a C compiler and the C library's development files.
ARG BUILDER=docker.io/library/rust:1.95.0-slim-trixie
ARG RUNTIME=gcr.io/distroless/static-debian13:nonroot

FROM ${BUILDER} AS build
WORKDIR /build
# glibc brings look-ups in /etc/hosts and by DNS along when it is linked statically (since 2.34), so the
# service needs no file of it at run time. The target has to be named, or build scripts and procedural
# macros would be linked statically too, which cannot be.
ENV RUSTFLAGS="-C target-feature=+crt-static"
# One of Cargo's profiles; "dev" builds faster, for a look at the image.
ARG PROFILE=release

# The dependencies are a layer of their own, which stays while the two files stay. What is compiled with
# them is a stub, which must not be taken for the service: its files would be newer than the real ones.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src benches \
    && echo '//! A stub.' | tee src/lib.rs >src/main.rs \
    && echo 'fn main() {}' >>src/main.rs \
    && sed -n '/^\[\[bench\]\]$/{n;s/^name = "\(.*\)"$/benches\/\1.rs/p}' Cargo.toml | xargs touch \
    && cargo build --locked --profile "$PROFILE" --target "$(rustc --print host-tuple)" --bin gas-suggestion \
    && cargo clean --profile "$PROFILE" --target "$(rustc --print host-tuple)" --package gas-suggestion

COPY config config
COPY src src
RUN cargo build --locked --profile "$PROFILE" --target "$(rustc --print host-tuple)" --bin gas-suggestion \
    && install -D target/*/*/gas-suggestion /image/gas-suggestion

FROM ${RUNTIME}
COPY --from=build /image/ /

ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="gas-suggestion" \
      org.opencontainers.image.description="Self-hosted gas price suggestions for EVM networks, computed from eth_feeHistory" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
# 9090 is the admin listener, which is at the container's loopback unless GAS_SERVER__ADMIN_LISTEN says
# otherwise: /metrics is for the operator, not for every client that reaches the container.
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s CMD ["/gas-suggestion", "healthcheck"]
ENTRYPOINT ["/gas-suggestion"]
