func @mlp_full(%x: tensor<?x16xf32>) -> tensor<?x10xf32> {
  %0 = flow.variable.load @h2_bias : tensor<16xf32>
  %1 = flow.variable.load @out_bias : tensor<10xf32>
  %2 = flow.variable.load @h1_bias : tensor<16xf32>
  %3 = flow.variable.load @h2_weights : tensor<16x16xf32>
  %4 = flow.variable.load @out_weights : tensor<16x10xf32>
  %5 = flow.variable.load @h1_weights : tensor<16x16xf32>
  %6 = "xla_hlo.dot"(%x, %5) : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %7 = "xla_hlo.broadcast_in_dim"(%2) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<16xf32>) -> tensor<?x16xf32>
  %8 = xla_hlo.add %6, %7 : tensor<?x16xf32>
  %9 = xla_hlo.constant dense<5.000000e-01> : tensor<f32>
  %10 = "xla_hlo.broadcast"(%9) {broadcast_sizes = dense<[-1, 16]> : tensor<2xi64>} : (tensor<f32>) -> tensor<?x16xf32>
  %11 = xla_hlo.mul %8, %10 : tensor<?x16xf32>
  %12 = "xla_hlo.tanh"(%11) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %13 = xla_hlo.mul %12, %10 : tensor<?x16xf32>
  %14 = xla_hlo.add %13, %10 : tensor<?x16xf32>
  %15 = "xla_hlo.dot"(%14, %3) : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %16 = "xla_hlo.broadcast_in_dim"(%0) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<16xf32>) -> tensor<?x16xf32>
  %17 = xla_hlo.add %15, %16 : tensor<?x16xf32>
  %18 = xla_hlo.mul %17, %10 : tensor<?x16xf32>
  %19 = "xla_hlo.tanh"(%18) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %20 = xla_hlo.mul %19, %10 : tensor<?x16xf32>
  %21 = xla_hlo.add %20, %10 : tensor<?x16xf32>
  %22 = "xla_hlo.dot"(%21, %4) : (tensor<?x16xf32>, tensor<16x10xf32>) -> tensor<?x10xf32>
  %23 = "xla_hlo.broadcast_in_dim"(%1) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<10xf32>) -> tensor<?x10xf32>
  %24 = xla_hlo.add %22, %23 : tensor<?x10xf32>
  %25 = "xla_hlo.broadcast"(%9) {broadcast_sizes = dense<[-1, 10]> : tensor<2xi64>} : (tensor<f32>) -> tensor<?x10xf32>
  %26 = xla_hlo.mul %24, %25 : tensor<?x10xf32>
  %27 = "xla_hlo.tanh"(%26) : (tensor<?x10xf32>) -> tensor<?x10xf32>
  %28 = xla_hlo.mul %27, %25 : tensor<?x10xf32>
  %29 = xla_hlo.add %28, %25 : tensor<?x10xf32>
  %30 = xla_hlo.constant dense<0xFF800000> : tensor<f32>
  %34 = "xla_hlo.reduce"(%29, %30) ( {
  ^bb0(%31: tensor<f32>, %32: tensor<f32>):  // no predecessors
    %33 = xla_hlo.max %31, %32 : tensor<f32>
    "xla_hlo.return"(%33) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<?x10xf32>, tensor<f32>) -> tensor<?xf32>
  %35 = "xla_hlo.broadcast_in_dim"(%34) {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<?xf32>) -> tensor<?x1xf32>
  %36 = "xla_hlo.broadcast_in_dim"(%35) {broadcast_dimensions = dense<[0, 1]> : tensor<2xi64>} : (tensor<?x1xf32>) -> tensor<?x10xf32>
  %37 = xla_hlo.sub %29, %36 : tensor<?x10xf32>
  %38 = "xla_hlo.exp"(%37) : (tensor<?x10xf32>) -> tensor<?x10xf32>
  %39 = xla_hlo.constant dense<0.000000e+00> : tensor<f32>
  %43 = "xla_hlo.reduce"(%38, %39) ( {
  ^bb0(%40: tensor<f32>, %41: tensor<f32>):  // no predecessors
    %42 = xla_hlo.add %40, %41 : tensor<f32>
    "xla_hlo.return"(%42) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<?x10xf32>, tensor<f32>) -> tensor<?xf32>
  %44 = "xla_hlo.broadcast_in_dim"(%43) {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<?xf32>) -> tensor<?x1xf32>
  %45 = "xla_hlo.broadcast_in_dim"(%44) {broadcast_dimensions = dense<[0, 1]> : tensor<2xi64>} : (tensor<?x1xf32>) -> tensor<?x10xf32>
  %46 = xla_hlo.div %38, %45 : tensor<?x10xf32>
  return %46 : tensor<?x10xf32>
}
