"""gRPC in front of the pipeline: the extra `grpc`, off unless `[grpc] enabled` says otherwise."""
