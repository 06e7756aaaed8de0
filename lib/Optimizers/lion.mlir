// Lion (Chen et al., arXiv 2302.06675, algorithm 2):
//   u = sign(b1*m + (1-b1)*g);  m = b2*m + (1-b2)*g;  p = p - lr*(u + wd*p), written as p *= 1 - lr*wd; p -= lr*u
train.optimizer @lion
    hyper {beta1 = 0.9, beta2 = 0.99, lr = 1.0e-4, weight_decay = 0.0}
    state ["exp_avg"] {
  func.func @scalars(%t: i64, %beta1: f64, %beta2: f64, %lr: f64, %wd: f64) -> (f32, f32, f32, f32, f32, f32) {
    %one = arith.constant 1.0 : f64
    %lrwd = arith.mulf %lr, %wd : f64
    %decay = arith.subf %one, %lrwd : f64
    %rest1 = arith.subf %one, %beta1 : f64
    %rest2 = arith.subf %one, %beta2 : f64
    %0 = arith.truncf %decay : f64 to f32
    %1 = arith.truncf %beta1 : f64 to f32
    %2 = arith.truncf %rest1 : f64 to f32
    %3 = arith.truncf %beta2 : f64 to f32
    %4 = arith.truncf %rest2 : f64 to f32
    %5 = arith.truncf %lr : f64 to f32
    return %0, %1, %2, %3, %4, %5 : f32, f32, f32, f32, f32, f32
  }
  func.func @update(%p: f32, %g: f32, %m: f32, %decay: f32, %beta1: f32, %rest1: f32, %beta2: f32, %rest2: f32, %lr: f32)
      -> (f32, f32) {
    %zero = arith.constant 0.0 : f32
    %plus = arith.constant 1.0 : f32
    %minus = arith.constant -1.0 : f32
    %c0 = arith.mulf %beta1, %m : f32
    %c1 = arith.mulf %rest1, %g : f32
    %c = arith.addf %c0, %c1 : f32
    %positive = arith.cmpf ogt, %c, %zero : f32
    %negative = arith.cmpf olt, %c, %zero : f32
    %s0 = arith.select %negative, %minus, %zero : f32
    %sign = arith.select %positive, %plus, %s0 : f32
    %p1 = arith.mulf %p, %decay : f32
    %delta = arith.mulf %lr, %sign : f32
    %p2 = arith.subf %p1, %delta : f32
    %m0 = arith.mulf %beta2, %m : f32
    %m1 = arith.mulf %rest2, %g : f32
    %m2 = arith.addf %m0, %m1 : f32
    return %p2, %m2 : f32, f32
  }
}
