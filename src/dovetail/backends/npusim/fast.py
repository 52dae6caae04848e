def build_model(graph, arithmetic):
    raise NotImplementedError
