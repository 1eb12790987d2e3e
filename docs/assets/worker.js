// Browsers start no worker for a page that was opened from disk. The search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inner.document.createElement("script");
      script.src = address;
      script.onload = () => {
        this.ready = true;
        this.waiting.forEach(data => this.postMessage(data));
      };
      this.inner.document.head.append(script);
    }

    postMessage(data) {
      if (this.ready) this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
