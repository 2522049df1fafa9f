"""An external scaler with grpcio, as an independent implementation of the protocol."""

import importlib
import pathlib
import sys
import tempfile
import time
from concurrent import futures

import grpc
from grpc_tools import protoc

PROTO = """
syntax = "proto3";
package externalscaler;
service ExternalScaler {
  rpc IsActive(ScaledObjectRef) returns (IsActiveResponse);
  rpc StreamIsActive(ScaledObjectRef) returns (stream IsActiveResponse);
  rpc GetMetrics(GetMetricsRequest) returns (GetMetricsResponse);
}
message ScaledObjectRef { string name = 1; string namespace = 2; map<string, string> scalerMetadata = 3; }
message IsActiveResponse { bool result = 1; }
message GetMetricsRequest { ScaledObjectRef scaledObjectRef = 1; string metricName = 2; }
message GetMetricsResponse { repeated MetricValue metricValues = 1; }
message MetricValue { string metricName = 1; int64 metricValue = 2; double metricValueFloat = 3; }
"""

folder = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2]))
(folder / "scaler.proto").write_text(PROTO)
protoc.main(["", f"-I{folder}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(folder / "scaler.proto")])
sys.path.insert(0, str(folder))
messages = importlib.import_module("scaler_pb2")
service = importlib.import_module("scaler_pb2_grpc")


class Scaler(service.ExternalScalerServicer):
    def IsActive(self, request, context):
        if request.scalerMetadata.get("token") != "t":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        return messages.IsActiveResponse(result=request.name != "idle")

    def StreamIsActive(self, request, context):
        for _ in range(3):
            yield messages.IsActiveResponse(result=True)
        time.sleep(3600)

    def GetMetrics(self, request, context):
        name = request.metricName
        if name == "slow":
            time.sleep(5)
        values = {"length": dict(metricValueFloat=12.5), "whole": dict(metricValue=7)}
        found = [messages.MetricValue(metricName=name, **values[name])] if name in values else []
        return messages.GetMetricsResponse(metricValues=found)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
service.add_ExternalScalerServicer_to_server(Scaler(), server)
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
