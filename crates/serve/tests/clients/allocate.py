"""Asks an allocator for game servers, as a matchmaker in Python does: grpcio, code generated from the proto, mutual TLS.

Prints one line for each answer: the server's name and address, or the name of the status code.
"""

import argparse
import importlib
import pathlib
import sys
import tempfile

import grpc
from grpc_tools import protoc


def generated(proto: pathlib.Path):
    """Makes Python of the proto, and gives the messages and the service."""
    out = tempfile.mkdtemp()
    include = pathlib.Path(protoc.__file__).parent / "_proto"
    flags = [f"-I{proto.parent}", f"-I{include}", f"--python_out={out}", f"--grpc_python_out={out}"]
    if protoc.main(["protoc", *flags, proto.name]) != 0:
        sys.exit("the proto does not compile")
    sys.path.insert(0, out)
    return importlib.import_module("allocation_pb2"), importlib.import_module("allocation_pb2_grpc")


def main():
    parser = argparse.ArgumentParser()
    for flag in ["--address", "--proto", "--ca", "--cert", "--key", "--namespace", "--fleet"]:
        parser.add_argument(flag, required=True)
    parser.add_argument("--count", type=int, default=1)
    args = parser.parse_args()
    messages, services = generated(pathlib.Path(args.proto))
    read = lambda path: pathlib.Path(path).read_bytes()
    credentials = grpc.ssl_channel_credentials(read(args.ca), read(args.key), read(args.cert))
    options = [("grpc.ssl_target_name_override", "localhost")]
    selector = messages.GameServerSelector(matchLabels={"agones.dev/fleet": args.fleet})
    request = messages.AllocationRequest(
        namespace=args.namespace,
        gameServerSelectors=[selector],
        metadata=messages.MetaPatch(labels={"by": "python"}),
    )
    with grpc.secure_channel(args.address, credentials, options) as channel:
        client = services.AllocationServiceStub(channel)
        for _ in range(args.count):
            try:
                answer = client.Allocate(request, timeout=30, wait_for_ready=True)
                print(answer.gameServerName, f"{answer.address}:{answer.ports[0].port}")
            except grpc.RpcError as error:
                print(error.code().name)


main()
