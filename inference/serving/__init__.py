"""Serve networks over HTTP: the Open Inference Protocol, and predictions for pictures. Requires the extra `serve`.

settings     options of a server
batcher      batching of the inputs of several requests for worker processes
tensors, messages, signature   the protocol: tensors, requests and responses, and the tensors of a network
bodies, gate limits on request bodies, and authorisation
answering, routes, application  the server as an ASGI application
on_ray       the same application as a deployment of Ray Serve
"""
