func @mlp_tanh(%x: tensor<?x16xf32>) -> tensor<?x10xf32> {
  %0 = flow.variable.load @h2_bias : tensor<16xf32>
  %1 = flow.variable.load @out_bias : tensor<10xf32>
  %2 = flow.variable.load @h1_bias : tensor<16xf32>
  %3 = flow.variable.load @h2_weights : tensor<16x16xf32>
  %4 = flow.variable.load @out_weights : tensor<16x10xf32>
  %5 = flow.variable.load @h1_weights : tensor<16x16xf32>
  %6 = "xla_hlo.dot"(%x, %5) : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %7 = "xla_hlo.broadcast_in_dim"(%2) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<16xf32>) -> tensor<?x16xf32>
  %8 = xla_hlo.add %6, %7 : tensor<?x16xf32>
  %9 = "xla_hlo.tanh"(%8) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %10 = "xla_hlo.dot"(%9, %3) : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %11 = "xla_hlo.broadcast_in_dim"(%0) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<16xf32>) -> tensor<?x16xf32>
  %12 = xla_hlo.add %10, %11 : tensor<?x16xf32>
  %13 = "xla_hlo.tanh"(%12) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %14 = "xla_hlo.dot"(%13, %4) : (tensor<?x16xf32>, tensor<16x10xf32>) -> tensor<?x10xf32>
  %15 = "xla_hlo.broadcast_in_dim"(%1) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<10xf32>) -> tensor<?x10xf32>
  %16 = xla_hlo.add %14, %15 : tensor<?x10xf32>
  %17 = "xla_hlo.tanh"(%16) : (tensor<?x10xf32>) -> tensor<?x10xf32>
  return %17 : tensor<?x10xf32>
}
