# The statically linked service on a base without a shell. Two arguments set the bases. BUILDER can be any Debian with Rust,
# a C compiler and the development files of the C library.
ARG BUILDER=docker.io/library/rust:1.95.0-slim-trixie
ARG RUNTIME=gcr.io/distroless/static-debian13:nonroot

FROM ${BUILDER} AS build
WORKDIR /build
# A statically linked glibc (since 2.34) resolves names through /etc/hosts and DNS without its shared libraries. Cargo needs an
# explicit target. Otherwise the flag would also apply to build scripts and procedural macros, which cannot be static.
ENV RUSTFLAGS="-C target-feature=+crt-static"
# A Cargo profile. "dev" builds faster, for trying out the image.
ARG PROFILE=release

# Dependencies are a separate layer, which is rebuilt only if these two files change. They are compiled with a stub of the
# service. Its build output is newer than the real sources, so it is cleaned, or Cargo would take it for the service.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src benches \
    && echo '//! A stub.' | tee src/lib.rs >src/main.rs \
    && echo 'fn main() {}' >>src/main.rs \
    && sed -n '/^\[\[bench\]\]$/{n;s/^name = "\(.*\)"$/benches\/\1.rs/p}' Cargo.toml | xargs touch \
    && cargo build --locked --profile "$PROFILE" --target "$(rustc --print host-tuple)" --bin gas-suggestion \
    && cargo clean --profile "$PROFILE" --target "$(rustc --print host-tuple)" --package gas-suggestion

COPY config config
COPY packaging packaging
COPY LICENSE LICENSE
COPY docs/openapi.json docs/openapi.json
COPY src src
RUN cargo build --locked --profile "$PROFILE" --target "$(rustc --print host-tuple)" --bin gas-suggestion \
    && install -D target/*/*/gas-suggestion /image/gas-suggestion \
    && install -D --mode 644 LICENSE --target-directory /image/usr/share/doc/gas-suggestion \
    && packaging/notices.sh >NOTICES \
    && gzip -9 -n <NOTICES >/image/usr/share/doc/gas-suggestion/NOTICES.gz \
    && mkdir --mode 700 /history

FROM ${RUNTIME}
COPY --from=build /image/ /
# A volume here keeps the price history: GAS_HISTORY__PATH=/var/lib/gas-suggestion/history.redb.
COPY --from=build --chown=65532:65532 /history /var/lib/gas-suggestion

ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="gas-suggestion" \
      org.opencontainers.image.description="Self-hosted gas price suggestions for EVM networks, computed from eth_feeHistory" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.url="https://gas-suggestion.example" \
      org.opencontainers.image.source="https://gas-suggestion.example/source" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# A number, because Kubernetes cannot check that a user name is not root (runAsNonRoot).
USER 65532:65532
# 9090 is the admin listener. It stays on the container's loopback unless GAS_SERVER__ADMIN_LISTEN is set, so that not every
# client that reaches the container can read /metrics.
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s CMD ["/gas-suggestion", "healthcheck"]
ENTRYPOINT ["/gas-suggestion"]
