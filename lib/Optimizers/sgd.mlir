// Stochastic gradient descent with momentum, as PyTorch's torch.optim.SGD:
//   g += wd*p;  buf = g at t = 1, else momentum*buf + (1-dampening)*g;  p -= lr * (nesterov ? g + momentum*buf : buf)
// Without momentum buf is g (dampening does not apply), as in PyTorch. The choices are made by @scalars, so that the elementwise part has none.
train.optimizer @sgd
    hyper {dampening = 0.0, lr = 1.0e-3, momentum = 0.0, nesterov = false, weight_decay = 0.0}
    state ["momentum_buffer"] {
  func.func @scalars(%t: i64, %dampening: f64, %lr: f64, %momentum: f64, %nesterov: f64, %wd: f64)
      -> (f32, f32, f32, f32, f32, f32) {
    %zero = arith.constant 0.0 : f64
    %one = arith.constant 1.0 : f64
    %t1 = arith.constant 1 : i64
    %isFirst = arith.cmpi eq, %t, %t1 : i64
    %isPlain = arith.cmpf oeq, %momentum, %zero : f64
    %whole = arith.ori %isFirst, %isPlain : i1
    %rest = arith.subf %one, %dampening : f64
    // buf = keep*buf + take*g
    %keep = arith.select %whole, %zero, %momentum : f64
    %take = arith.select %whole, %one, %rest : f64
    // direction = direct*g + through*buf
    %isNesterov = arith.cmpf one, %nesterov, %zero : f64
    %direct = arith.select %isNesterov, %one, %zero : f64
    %through = arith.select %isNesterov, %momentum, %one : f64
    %0 = arith.truncf %wd : f64 to f32
    %1 = arith.truncf %keep : f64 to f32
    %2 = arith.truncf %take : f64 to f32
    %3 = arith.truncf %direct : f64 to f32
    %4 = arith.truncf %through : f64 to f32
    %5 = arith.truncf %lr : f64 to f32
    return %0, %1, %2, %3, %4, %5 : f32, f32, f32, f32, f32, f32
  }
  func.func @update(%p: f32, %grad: f32, %buf: f32, %wd: f32, %keep: f32, %take: f32, %direct: f32, %through: f32, %lr: f32)
      -> (f32, f32) {
    %l2 = arith.mulf %wd, %p : f32
    %g = arith.addf %grad, %l2 : f32
    %kept = arith.mulf %keep, %buf : f32
    %taken = arith.mulf %take, %g : f32
    %buf1 = arith.addf %kept, %taken : f32
    %d0 = arith.mulf %direct, %g : f32
    %d1 = arith.mulf %through, %buf1 : f32
    %d = arith.addf %d0, %d1 : f32
    %delta = arith.mulf %lr, %d : f32
    %p1 = arith.subf %p, %delta : f32
    return %p1, %buf1 : f32, f32
  }
}
