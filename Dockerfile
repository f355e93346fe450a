# A small image: one static program, no shell, no user with rights.
#
#   docker build -t karpenter .
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev gcc make
WORKDIR /src
COPY . .
ARG KARPENTER_COMMIT=unknown
ENV KARPENTER_COMMIT=$KARPENTER_COMMIT
RUN cargo build --release --locked --bin karpenter && strip target/release/karpenter

FROM scratch
COPY --from=build /src/target/release/karpenter /karpenter
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["/karpenter"]
