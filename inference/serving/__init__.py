"""A network over HTTP: the Open Inference Protocol, and pictures to labels. Needs the extra `serve`.

settings     options of a server
batcher      inputs of many requests as batches over worker processes
tensors, messages, signature   the protocol: tensors, requests and responses, and those of a network
bodies, gate the limits on what clients may send, and who may ask
answering, routes, application  the server as an ASGI application
on_ray       the same application as a deployment of Ray Serve
"""
