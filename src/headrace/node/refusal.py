"""Why a request on the agent's stream is not answered: a gRPC status code and a sentence."""

import grpc


class Refused(Exception):
    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message
