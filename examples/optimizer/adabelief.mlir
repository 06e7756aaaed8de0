// AdaBelief (Zhuang et al., arXiv 2010.07468, algorithm 2) with decoupled weight decay:
//   p *= 1 - lr*wd;  m = b1*m + (1-b1)*g;  s = b2*s + (1-b2)*(g-m)^2 + eps;
//   p -= lr * (m/(1-b1^t)) / (sqrt(s/(1-b2^t)) + eps)
train.optimizer @adabelief
    hyper {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-16, lr = 1.0e-3, weight_decay = 0.0}
    state ["exp_avg", "exp_avg_var"] {
  func.func @scalars(%t: i64, %beta1: f64, %beta2: f64, %eps: f64, %lr: f64, %wd: f64)
      -> (f32, f32, f32, f32, f32, f32, f32, f32, f32) {
    %one = arith.constant 1.0 : f64
    %lrwd = arith.mulf %lr, %wd : f64
    %decay = arith.subf %one, %lrwd : f64
    %rest1 = arith.subf %one, %beta1 : f64
    %rest2 = arith.subf %one, %beta2 : f64
    %power1 = math.fpowi %beta1, %t : f64, i64
    %power2 = math.fpowi %beta2, %t : f64, i64
    %correction1 = arith.subf %one, %power1 : f64
    %correction2 = arith.subf %one, %power2 : f64
    %0 = arith.truncf %decay : f64 to f32
    %1 = arith.truncf %beta1 : f64 to f32
    %2 = arith.truncf %rest1 : f64 to f32
    %3 = arith.truncf %beta2 : f64 to f32
    %4 = arith.truncf %rest2 : f64 to f32
    %5 = arith.truncf %correction1 : f64 to f32
    %6 = arith.truncf %correction2 : f64 to f32
    %7 = arith.truncf %eps : f64 to f32
    %8 = arith.truncf %lr : f64 to f32
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : f32, f32, f32, f32, f32, f32, f32, f32, f32
  }
  func.func @update(%p: f32, %g: f32, %m: f32, %s: f32, %decay: f32, %beta1: f32, %rest1: f32, %beta2: f32, %rest2: f32,
                    %correction1: f32, %correction2: f32, %eps: f32, %lr: f32) -> (f32, f32, f32) {
    %p1 = arith.mulf %p, %decay : f32
    %m1 = arith.mulf %beta1, %m : f32
    %m2 = arith.mulf %rest1, %g : f32
    %m3 = arith.addf %m1, %m2 : f32
    %surprise = arith.subf %g, %m3 : f32
    %s1 = arith.mulf %beta2, %s : f32
    %s2 = arith.mulf %rest2, %surprise : f32
    %s3 = arith.mulf %s2, %surprise : f32
    %s4 = arith.addf %s1, %s3 : f32
    %s5 = arith.addf %s4, %eps : f32
    %mhat = arith.divf %m3, %correction1 : f32
    %shat = arith.divf %s5, %correction2 : f32
    %root = math.sqrt %shat : f32
    %den = arith.addf %root, %eps : f32
    %scaled = arith.mulf %lr, %mhat : f32
    %delta = arith.divf %scaled, %den : f32
    %p2 = arith.subf %p1, %delta : f32
    return %p2, %m3, %s5 : f32, f32, f32
  }
}
