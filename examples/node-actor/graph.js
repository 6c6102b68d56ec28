// The check of an acting graph before a session is built from it: it came over the network.
// It reads the protocol buffers of ONNX by the numbers of their fields.

const WEIGHTS = "weights"; // the only location of external data
const OPSET = 20;
const MODEL_BYTES = 1 << 20;
const MODEL = { graph: 7, opsets: 8, training: 20, functions: 25 };
const GRAPH = { nodes: 1, initializers: 5, sparse: 15 };
const NODE = { attributes: 5, domain: 7 };
const ATTRIBUTE = { tensor: 5, graph: 6, tensors: 10, graphs: 11, sparse: 22, sparses: 23 };
const TENSOR = { external: 13 };
const ENTRY = { key: 1, value: 2 };

/** Throw a sentence unless a model is plain ONNX that reads only the block of weights. */
export function requireSafe(model) {
  require(model.length <= MODEL_BYTES, "it is larger than 1 MiB");
  const found = fields(model);
  require(!of(found, MODEL.functions).length, "it has functions");
  require(!of(found, MODEL.training).length, "it has graphs of training");
  for (const opset of of(found, MODEL.opsets)) {
    const [domain, version] = [of(fields(opset), 1)[0], of(fields(opset), 2)[0]];
    require(isOwn(domain) && version <= OPSET, "it has operators of another set");
  }
  for (const graph of of(found, MODEL.graph)) requireSafeGraph(fields(graph));
}

function requireSafeGraph(graph) {
  require(!of(graph, GRAPH.sparse).length, "it has sparse weights");
  for (const tensor of of(graph, GRAPH.initializers)) requireSafeTensor(tensor);
  for (const node of of(graph, GRAPH.nodes).map(fields)) {
    require(of(node, NODE.domain).every(isOwn), "it has operators that are not ONNX's own");
    for (const attribute of of(node, NODE.attributes).map(fields)) {
      const nested = [ATTRIBUTE.graph, ATTRIBUTE.graphs, ATTRIBUTE.sparse, ATTRIBUTE.sparses];
      require(nested.every((number) => !of(attribute, number).length), "it has control flow");
      for (const number of [ATTRIBUTE.tensor, ATTRIBUTE.tensors])
        for (const tensor of of(attribute, number))
          require(!of(fields(tensor), TENSOR.external).length, "an attribute is in a file");
    }
  }
}

function requireSafeTensor(tensor) {
  for (const entry of of(fields(tensor), TENSOR.external).map(fields))
    if (text(of(entry, ENTRY.key)[0]) === "location")
      require(text(of(entry, ENTRY.value)[0]) === WEIGHTS, "its weights are in a file");
}

function isOwn(domain) {
  return ["", "ai.onnx"].includes(text(domain));
}

function require(holds, reason) {
  if (!holds) throw new Error(`the learner's graph is refused: ${reason}`);
}

function text(bytes) {
  return bytes === undefined ? "" : Buffer.from(bytes).toString("utf8");
}

function of(found, number) {
  return found.filter(([key]) => key === number).map(([, value]) => value);
}

/** Return the fields of a message as [number, value]: bytes, or a number. */
function fields(bytes) {
  const found = [];
  let place = 0;
  const take = (length) => {
    require(place + length <= bytes.length, "it is damaged");
    place += length;
    return bytes.subarray(place - length, place);
  };
  const varint = () => {
    let [value, factor] = [0, 1];
    for (;;) {
      const [byte] = take(1);
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
  };
  while (place < bytes.length) {
    const key = varint();
    const [number, type] = [Math.floor(key / 8), key % 8];
    require(type !== 3 && type !== 4 && type < 6, "it is damaged");
    if (type === 0) found.push([number, varint()]);
    else found.push([number, take(type === 1 ? 8 : type === 5 ? 4 : varint())]);
  }
  return found;
}
