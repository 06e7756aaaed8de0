// Gradient cases for train.attention: every mask, grouped heads, window, soft cap, rows without keys.

func.func @attention(%q: tensor<2x3x5x4xf64>, %k: tensor<2x3x7x4xf64>, %v: tensor<2x3x7x6xf64>) -> tensor<2x3x5x6xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 0.5}
      : (tensor<2x3x5x4xf64>, tensor<2x3x7x4xf64>, tensor<2x3x7x6xf64>) -> (tensor<2x3x5x6xf64>, tensor<2x3x5xf64>)
  return %o : tensor<2x3x5x6xf64>
}
func.func @attention_causal(%q: tensor<1x2x5x3xf64>, %k: tensor<1x2x5x3xf64>, %v: tensor<1x2x5x3xf64>) -> tensor<1x2x5x3xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 0.7, causal}
      : (tensor<1x2x5x3xf64>, tensor<1x2x5x3xf64>, tensor<1x2x5x3xf64>) -> (tensor<1x2x5x3xf64>, tensor<1x2x5xf64>)
  return %o : tensor<1x2x5x3xf64>
}
func.func @attention_grouped(%q: tensor<2x6x5x3xf64>, %k: tensor<2x2x5x3xf64>, %v: tensor<2x2x5x1xf64>) -> tensor<2x6x5x1xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 0.7, causal}
      : (tensor<2x6x5x3xf64>, tensor<2x2x5x3xf64>, tensor<2x2x5x1xf64>) -> (tensor<2x6x5x1xf64>, tensor<2x6x5xf64>)
  return %o : tensor<2x6x5x1xf64>
}
func.func @attention_window(%q: tensor<1x2x7x3xf64>, %k: tensor<1x1x7x3xf64>, %v: tensor<1x1x7x3xf64>) -> tensor<1x2x7x3xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 1.0, causal, window = 3 : i64}
      : (tensor<1x2x7x3xf64>, tensor<1x1x7x3xf64>, tensor<1x1x7x3xf64>) -> (tensor<1x2x7x3xf64>, tensor<1x2x7xf64>)
  return %o : tensor<1x2x7x3xf64>
}
// Without causal a window hides only what lies too far back.
func.func @attention_window_only(%q: tensor<1x1x5x2xf64>, %k: tensor<1x1x5x2xf64>, %v: tensor<1x1x5x2xf64>) -> tensor<1x1x5x2xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 1.0, window = 2 : i64}
      : (tensor<1x1x5x2xf64>, tensor<1x1x5x2xf64>, tensor<1x1x5x2xf64>) -> (tensor<1x1x5x2xf64>, tensor<1x1x5xf64>)
  return %o : tensor<1x1x5x2xf64>
}
func.func @attention_softcap(%q: tensor<1x2x5x3xf64>, %k: tensor<1x2x5x3xf64>, %v: tensor<1x2x5x3xf64>) -> tensor<1x2x5x3xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 1.5, causal, softcap = 2.0}
      : (tensor<1x2x5x3xf64>, tensor<1x2x5x3xf64>, tensor<1x2x5x3xf64>) -> (tensor<1x2x5x3xf64>, tensor<1x2x5xf64>)
  return %o : tensor<1x2x5x3xf64>
}
func.func @attention_bool_mask(%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: tensor<2x2x4x2xf64>, %m: tensor<2x2x3x4xi1>) -> tensor<2x2x3x2xf64> {
  %o, %l = train.attention %q, %k, %v mask(%m) {scale = 0.5}
      : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x3x4xi1>) -> (tensor<2x2x3x2xf64>, tensor<2x2x3xf64>)
  return %o : tensor<2x2x3x2xf64>
}
// One mask row for all batches, heads and queries.
func.func @attention_mask_broadcast(%q: tensor<2x2x3x2xf64>, %k: tensor<2x1x4x2xf64>, %v: tensor<2x1x4x2xf64>,
    %m: tensor<1x1x1x4xi1> {test.values = dense<[[[[true, false, true, true]]]]> : tensor<1x1x1x4xi1>}) -> tensor<2x2x3x2xf64> {
  %o, %l = train.attention %q, %k, %v mask(%m) {scale = 0.5}
      : (tensor<2x2x3x2xf64>, tensor<2x1x4x2xf64>, tensor<2x1x4x2xf64>, tensor<1x1x1x4xi1>) -> (tensor<2x2x3x2xf64>, tensor<2x2x3xf64>)
  return %o : tensor<2x2x3x2xf64>
}
func.func @attention_float_mask(%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: tensor<2x2x4x2xf64>, %m: tensor<1x2x3x4xf64> {test.constant}) -> tensor<2x2x3x2xf64> {
  %o, %l = train.attention %q, %k, %v mask(%m) {scale = 0.5, softcap = 3.0}
      : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x2xf64>, tensor<1x2x3x4xf64>) -> (tensor<2x2x3x2xf64>, tensor<2x2x3xf64>)
  return %o : tensor<2x2x3x2xf64>
}
// -inf, or a number so low that the key's weight is 0.
func.func @attention_float_mask_extremes(%q: tensor<1x1x2x2xf64>, %k: tensor<1x1x3x2xf64>, %v: tensor<1x1x3x2xf64>,
    %m: tensor<1x1x2x3xf64> {test.constant, test.values = dense<[[[[0.0, 0xFFF0000000000000, 1.0], [-3.0e38, -1.0, -3.0e38]]]]> : tensor<1x1x2x3xf64>}) -> tensor<1x1x2x2xf64> {
  %o, %l = train.attention %q, %k, %v mask(%m) {scale = 0.5}
      : (tensor<1x1x2x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x2x3xf64>) -> (tensor<1x1x2x2xf64>, tensor<1x1x2xf64>)
  return %o : tensor<1x1x2x2xf64>
}
func.func @attention_key_padding(%q: tensor<2x2x3x2xf64>, %k: tensor<2x1x3x2xf64>, %v: tensor<2x1x3x2xf64>,
    %p: tensor<2x3xi1> {test.values = dense<[[true, true, false], [true, true, true]]> : tensor<2x3xi1>}) -> tensor<2x2x3x2xf64> {
  %o, %l = train.attention %q, %k, %v key_padding(%p) {scale = 0.5, causal}
      : (tensor<2x2x3x2xf64>, tensor<2x1x3x2xf64>, tensor<2x1x3x2xf64>, tensor<2x3xi1>) -> (tensor<2x2x3x2xf64>, tensor<2x2x3xf64>)
  return %o : tensor<2x2x3x2xf64>
}
// Left padding with a causal mask: the first rows see nothing and give 0, without a gradient.
func.func @attention_hidden_rows(%q: tensor<2x1x3x2xf64>, %k: tensor<2x1x3x2xf64>, %v: tensor<2x1x3x2xf64>,
    %p: tensor<2x3xi1> {test.values = dense<[[false, false, true], [false, false, false]]> : tensor<2x3xi1>}) -> tensor<2x1x3x2xf64> {
  %o, %l = train.attention %q, %k, %v key_padding(%p) {scale = 0.5, causal}
      : (tensor<2x1x3x2xf64>, tensor<2x1x3x2xf64>, tensor<2x1x3x2xf64>, tensor<2x3xi1>) -> (tensor<2x1x3x2xf64>, tensor<2x1x3xf64>)
  return %o : tensor<2x1x3x2xf64>
}
// All at once.
func.func @attention_everything(%q: tensor<2x4x5x3xf64>, %k: tensor<2x2x5x3xf64>, %v: tensor<2x2x5x2xf64>, %m: tensor<2x1x5x5xf64> {test.constant},
    %p: tensor<2x5xi1> {test.values = dense<[[true, false, true, true, true], [true, true, true, true, false]]> : tensor<2x5xi1>}) -> tensor<2x4x5x2xf64> {
  %o, %l = train.attention %q, %k, %v mask(%m) key_padding(%p) {scale = 0.8, causal, window = 4 : i64, softcap = 2.5}
      : (tensor<2x4x5x3xf64>, tensor<2x2x5x3xf64>, tensor<2x2x5x2xf64>, tensor<2x1x5x5xf64>, tensor<2x5xi1>) -> (tensor<2x4x5x2xf64>, tensor<2x4x5xf64>)
  return %o : tensor<2x4x5x2xf64>
}
func.func @attention_one(%q: tensor<1x1x1x1xf64>, %k: tensor<1x1x1x1xf64>, %v: tensor<1x1x1x1xf64>) -> tensor<1x1x1x1xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 1.0, causal}
      : (tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>) -> (tensor<1x1x1x1xf64>, tensor<1x1x1xf64>)
  return %o : tensor<1x1x1x1xf64>
}
func.func @attention_zero_batch(%q: tensor<0x2x3x2xf64>, %k: tensor<0x2x3x2xf64>, %v: tensor<0x2x3x2xf64>) -> tensor<0x2x3x2xf64> {
  %o, %l = train.attention %q, %k, %v {scale = 1.0}
      : (tensor<0x2x3x2xf64>, tensor<0x2x3x2xf64>, tensor<0x2x3x2xf64>) -> (tensor<0x2x3x2xf64>, tensor<0x2x3xf64>)
  return %o : tensor<0x2x3x2xf64>
}
// The same value as query, key and value: three gradients of one tensor.
func.func @attention_self(%x: tensor<1x2x4x3xf64>) -> tensor<1x2x4x3xf64> {
  %o, %l = train.attention %x, %x, %x {scale = 0.5, causal}
      : (tensor<1x2x4x3xf64>, tensor<1x2x4x3xf64>, tensor<1x2x4x3xf64>) -> (tensor<1x2x4x3xf64>, tensor<1x2x4xf64>)
  return %o : tensor<1x2x4x3xf64>
}
